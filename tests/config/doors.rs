//! Does every documented name work on the command line and over HTTP as it does in SQL, with the same words?

use serde_json::{Value, json};

use crate::{
    cli::commands::{err, out, run},
    config::names::{NAMES, all_at_once, all_have_arrived, with_more_queues},
    http::{Api, answer},
    support::TestDatabase,
};

#[tokio::test(flavor = "multi_thread")]
async fn every_name_is_set_and_shown_on_the_command_line() {
    let database = with_more_queues().await;
    let mut words = vec!["config", "set"];
    words.extend(NAMES.iter().flat_map(|(name, value, _)| [*name, *value]));

    let set = run(&database.url, &words).await;

    assert!(set.status.success(), "{}", err(&set));
    all_have_arrived(&database).await;
    let all = run(&database.url, &["config", "get", "--json"]).await;
    let all: Vec<Value> = serde_json::from_slice(&all.stdout).unwrap();
    for (name, _, _) in NAMES {
        let shown = database.store.config_get(Some(name)).await.unwrap();
        for setting in shown {
            assert!(all.iter().any(|shown| shown["name"] == setting.name.as_str()), "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_name_is_set_and_shown_over_http() {
    let database = with_more_queues().await;
    let api = Api::of(&database).await;
    for (name, value, holds) in NAMES {
        let set = api.patch("/v1/admin/config", &json!({ *name: value })).await;
        assert_eq!(set.status, 200, "{name}: {set:?}");
        assert_ne!(set.body["changed"], json!([]), "{name}");
        assert_eq!(database.text(holds).await.as_deref(), Some("true"), "{name}");
        let changed = &set.body["changed"][0];
        let shown = api.get(&format!("/v1/admin/config/{}", changed["name"].as_str().unwrap())).await;
        assert_eq!(shown.body["settings"][0]["value"], changed["new"], "{name}");
    }
    all_have_arrived(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_names_are_set_by_one_patch_and_by_one_patch_only_once() {
    let database = with_more_queues().await;
    let api = Api::of(&database).await;

    let set = api.patch("/v1/admin/config", &all_at_once()).await;
    assert_eq!(set.status, 200, "{set:?}");
    all_have_arrived(&database).await;

    let again = api.patch("/v1/admin/config", &all_at_once()).await;
    assert_eq!((again.status.as_u16(), &again.body["changed"]), (200, &json!([])));
}

#[tokio::test(flavor = "multi_thread")]
async fn values_come_and_go_as_json_of_their_type() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    for (name, old, new) in [
        ("tx.per_seconds", json!(10), json!(0.5)),
        ("tx.per_seconds", json!(0.5), json!(null)),
        ("tx.paused", json!(false), json!(true)),
        ("direct.eta", json!("nominal"), json!("observed")),
        (
            "direct.tx.retry_on",
            json!(["5xx", "timeout", "connect", "throttled", "unauthorized", "other"]),
            json!(["5xx"]),
        ),
        ("direct.tx.retry_on", json!(["5xx"]), json!([])),
        ("direct.retention", json!("30 days"), json!(null)),
        ("direct_processing_seconds", json!(2), json!(2.5)),
        ("max_seconds", json!(300), json!(400)),
    ] {
        let set = api.patch("/v1/admin/config", &json!({ name: new })).await;
        assert_eq!(set.status, 200, "{name}: {set:?}");
        let changed = &set.body["changed"][0];
        assert_eq!((&changed["old"], &changed["new"]), (&old, &new), "{name}");
        let shown = api.get(&format!("/v1/admin/config/{name}")).await;
        assert_eq!(shown.body["settings"][0]["value"], new, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_three_doors_refuse_in_the_same_words() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    for (name, value, status, code) in [
        ("tx.per_seconds", "-1", 400, "invalid_request"),
        ("min_seconds", "301", 400, "invalid_request"),
        ("direct_processing_seconds", "1.0005", 400, "invalid_request"),
        ("direct.deadline", "soon", 400, "invalid_request"),
        ("direct.tx_queue", "nowhere", 400, "invalid_request"),
        ("tx.burst", "none", 400, "invalid_request"),
        ("tx.speed", "1", 404, "unknown_setting"),
        ("nope", "1", 404, "unknown_setting"),
    ] {
        let said = database.refused(&format!("select tidegate.config_set('{name}', '{value}')")).await;
        let typed = run(&database.url, &["config", "set", name, value]).await;
        assert_eq!(typed.status.code(), Some(1), "{name}");
        assert!(err(&typed).contains(&said.message), "{name}: {}", err(&typed));
        assert!(err(&typed).contains(&said.hint), "{name}: {}", err(&typed));

        let posted = api.patch("/v1/admin/config", &json!({ name: value })).await;
        posted.assert_problem(status, code);
        assert!(posted.detail().contains(&said.message), "{name}: {posted:?}");
        assert!(posted.detail().contains(&said.hint), "{name}: {posted:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_says_what_was_and_who_did_it() {
    let database = TestDatabase::new().await;

    let set = run(&database.url, &["config", "set", "min_seconds", "400", "max_seconds", "500", "--json"]).await;
    let changed: Value = serde_json::from_slice(&set.stdout).unwrap();
    assert_eq!(
        changed,
        json!([
            {"name": "min_seconds", "subject": "setting", "old": 1, "new": 400},
            {"name": "max_seconds", "subject": "setting", "old": 300, "new": 500},
        ])
    );
    let again = run(&database.url, &["config", "set", "min_seconds", "400"]).await;
    assert!(out(&again).contains("nothing changed"), "{}", out(&again));

    let one = run(&database.url, &["config", "get", "min_seconds"]).await;
    assert!(out(&one).contains("400") && out(&one).contains("Retry-After"), "{}", out(&one));

    // Settings that are seldom set are left out while they have their defaults.
    let usual = out(&run(&database.url, &["config", "get", "direct.tx"]).await);
    assert!(usual.contains("direct.tx.attempts") && !usual.contains("direct.tx.hedge_share"), "{usual}");
    assert!(usual.contains("more settings of policies have their defaults"), "{usual}");
    let all = out(&run(&database.url, &["config", "get", "direct.tx", "--all"]).await);
    assert!(all.contains("direct.tx.hedge_share") && !all.contains("more settings"), "{all}");
    run(&database.url, &["config", "set", "direct.tx.hedge_share", "0.2"]).await;
    let usual = out(&run(&database.url, &["config", "get", "direct.tx"]).await);
    assert!(usual.contains("direct.tx.hedge_share"), "{usual}");
    let one = out(&run(&database.url, &["config", "get", "direct.tx.margin_ms"]).await);
    assert!(one.contains("direct.tx.margin_ms"), "{one}");

    let person = nix::unistd::User::from_uid(nix::unistd::getuid()).unwrap().unwrap().name;
    let history = run(&database.url, &["config", "history", "min_seconds"]).await;
    let actor = database.text("select session_user::text").await.unwrap();
    for word in [&*actor, &person, "min_seconds", "400"] {
        assert!(out(&history).contains(word), "{word}: {}", out(&history));
    }
    let paused = run(&database.url, &["pause", "tx"]).await;
    assert!(paused.status.success());
    let history = run(&database.url, &["config", "history", "--limit", "1", "--json"]).await;
    let history: Value = serde_json::from_slice(&history.stdout).unwrap();
    assert_eq!(history.as_array().unwrap().len(), 1);
    assert_eq!(history[0]["name"], "tx.paused");
    assert_eq!((&history[0]["old"], &history[0]["new"]), (&json!(false), &json!(true)));
    assert_eq!(history[0]["on_behalf_of"], person.as_str());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_line_that_makes_no_sense_changes_nothing() {
    let database = TestDatabase::new().await;
    for (words, code, said) in [
        (&["config", "set"][..], 2, "required"),
        (&["config", "set", "tx.burst"], 2, "2 values"),
        (&["config", "set", "tx.burst", "2", "min_seconds"], 1, "min_seconds has no value"),
        (&["config", "set", "tx.burst", "2", "tx.burst", "3"], 1, "tx.burst is given twice"),
        (&["config", "set", "tx.burst", "2", "min_seconds", "0"], 1, "setting min seconds is positive"),
        (&["config", "set", "tx.burst", ""], 1, "tx.burst is a number"),
        (&["config", "get", "nope"], 1, "there is no setting \"nope\""),
        (&["config", "history", "nope"], 1, "there is no setting \"nope\""),
        (&["config", "history", "--limit", "0"], 2, "1..=10000"),
    ] {
        let refused = run(&database.url, words).await;
        assert_eq!(refused.status.code(), Some(code), "{words:?}: {}", err(&refused));
        assert!(err(&refused).contains(said), "{words:?}: {}", err(&refused));
    }
    assert_eq!(database.number("select burst from tidegate.queue where name = 'tx'").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn gates_are_shown_marked_held_and_released_on_the_command_line() {
    let database = TestDatabase::new().await;
    for (words, state, forced, high, said) in [
        (&["gate", "set", "tx", "--high", "50", "--low", "5"][..], "accepting", false, 50, "by marks"),
        (&["gate", "set", "tx", "--high", "50"], "accepting", false, 50, "nothing changed"),
        (&["gate", "close", "tx"], "too_many_requests", true, 50, "by hand"),
        (&["gate", "close", "tx"], "too_many_requests", true, 50, "nothing changed"),
        (&["gate", "open", "tx"], "accepting", true, 50, "by hand"),
        (&["gate", "release", "tx"], "accepting", false, 50, "by marks"),
    ] {
        let done = run(&database.url, words).await;
        assert!(done.status.success(), "{words:?}: {}", err(&done));
        assert!(out(&done).contains(said), "{words:?}: {}", out(&done));
        let shown = run(&database.url, &["gate", "--json"]).await;
        let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
        assert_eq!(shown[1]["queue"], "tx");
        assert_eq!(
            (&shown[1]["state"], &shown[1]["forced"], &shown[1]["high_water"]),
            (&json!(state), &json!(forced), &json!(high)),
            "{words:?}"
        );
    }
    for (words, code, said) in [
        (&["gate", "close", "nope"][..], 1, "there is no queue \"nope\""),
        (&["gate", "set", "nope", "--high", "5"], 1, "there is no queue \"nope\""),
        (&["gate", "set", "tx", "--high", "1"], 1, "gate low water is below high water"),
        (&["gate", "set", "tx"], 2, "--high"),
        (&["gate", "ajar", "tx"], 2, "ajar"),
    ] {
        let refused = run(&database.url, words).await;
        assert_eq!(refused.status.code(), Some(code), "{words:?}: {}", err(&refused));
        assert!(err(&refused).contains(said), "{words:?}: {}", err(&refused));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_nominal_times_every_door_says_what_to_do() {
    let database = TestDatabase::uninitialised().await;
    let api = Api::of(&database).await;

    let posted = api.post("/v1/direct", &json!({})).await;
    posted.assert_problem(503, "kind_not_configured");
    let typed = run(&database.url, &["submit", "direct"]).await;
    for words in [posted.detail(), &err(&typed)] {
        assert!(words.contains("\"direct\""), "{words}");
        assert!(words.contains("tidegate init") && words.contains("tidegate config set"), "{words}");
    }

    // As it says: by `config set`, and nothing else.
    let set = run(
        &database.url,
        &["config", "set", "safety_margin", "0.2", "direct_processing_seconds", "2", "tx_confirmation_ms", "100"],
    )
    .await;
    assert!(set.status.success(), "{}", err(&set));
    assert_eq!(api.post("/v1/direct", &json!({})).await.status, 202);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_database_user_is_no_admin_says_so() {
    let database = TestDatabase::new().await;
    let session: sqlx::postgres::PgConnectOptions = database.url.parse().unwrap();
    let pool = sqlx::PgPool::connect_with(session.options([("role", "tidegate_node")])).await.unwrap();
    let store = tidegate::internals::store::Store::new(pool);
    let api = Api::start(store, &tidegate_node::HttpOptions::default()).await;

    assert_eq!(api.get("/v1/admin/config/tx.burst").await.status, 200);
    assert_eq!(api.get("/v1/admin/config/history").await.status, 200);
    assert_eq!(api.get("/v1/admin/gates").await.status, 200);
    let refused = [
        api.patch("/v1/admin/config", &json!({"tx.burst": 2})).await,
        api.patch("/v1/admin/gates/tx", &json!({"high_water": 5000})).await,
        answer(api.client.post(api.url("/v1/admin/gates/tx/close"))).await,
        answer(api.client.post(api.url("/v1/admin/queues/tx/pause"))).await,
    ];
    for refused in refused {
        refused.assert_problem(503, "not_permitted");
        assert!(refused.detail().contains("tidegate_admin"), "{refused:?}");
    }
}
