//! Is an API key safe from theft, revival and loss?

use sqlx::PgConnection;
use tidegate::internals::api_key::{ApiKey, Scope};

use crate::support::{
    TestDatabase,
    sql::{refused, value},
};

async fn changes(session: &mut PgConnection, after: i64) -> String {
    value(session, &format!("select count(*) || ' to ' || max(version) from tidegate.key_changes({after})")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_may_be_made_known_twice_and_nothing_else_may_take_its_place() {
    let database = TestDatabase::uninitialised().await;
    let key = ApiKey::generate().unwrap();
    let other = ApiKey::generate().unwrap();
    let store = &database.store;
    let both = [Scope::Respond, Scope::Submit, Scope::Respond];

    let made = store.key_create(&key, "shop", &both, None).await.unwrap();
    let again = store.key_create(&key, "shop", &[Scope::Submit, Scope::Respond], None).await.unwrap();

    assert!(made.created && !again.created);
    assert_eq!(again.submitter, "shop");
    for (key, name, scopes, said) in [
        (&other, "shop", [Scope::Submit], "a key named \"shop\" already"),
        (&key, "shop", [Scope::Admin], "with another"),
        (&key, "other", [Scope::Submit], "with another"),
    ] {
        let refused = store.key_create(key, name, &scopes, None).await;
        assert!(refused.as_ref().unwrap_err().to_string().contains(said), "{refused:?}");
    }
    store.key_revoke(key.id()).await.unwrap();
    let revived = store.key_create(&key, "shop", &both, None).await;
    assert!(revived.unwrap_err().to_string().contains("is revoked"));
    // The name is free again.
    let made = store.key_create(&other, "shop", &both, None).await.unwrap();
    assert!(made.created);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_is_told_once_and_a_stranger_is_none() {
    let database = TestDatabase::uninitialised().await;
    let key = ApiKey::generate().unwrap();
    let store = &database.store;
    store.key_create(&key, "shop", &[Scope::Submit], None).await.unwrap();

    let first = store.key_revoke(key.id()).await.unwrap();
    let second = store.key_revoke(key.id()).await.unwrap();

    assert!(first.revoked && !second.revoked);
    assert_eq!(first.revoked_at, second.revoked_at);
    let stranger = store.key_revoke("0123").await;
    assert!(stranger.unwrap_err().to_string().contains("no API key 0123"));
    let listed = store.key_list().await.unwrap();
    assert_eq!(listed[0].revoked_at, Some(first.revoked_at));
    assert!(listed[0].revoked_by.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn nonsense_is_refused_in_words() {
    let database = TestDatabase::uninitialised().await;
    let mut session = database.session().await;
    let hash = "sha256('x')";
    let id = "0123456789abcdef";

    for (arguments, constraint) in [
        (format!("'{id}', 'n', {hash}, '{{}}'"), "api_key_has_a_scope"),
        (format!("'{id}', 'n', {hash}, null"), "api_key_has_a_scope"),
        (format!("'{id}', 'n', {hash}, array['submit', null]"), "api_key_has_a_scope"),
        (format!("'{id}', 'n', {hash}, '{{root}}'"), "api_key_scopes_are_known"),
        (format!("'{id}', '', {hash}, '{{submit}}'"), "api_key_name_has_1_to_100_characters"),
        (format!("'{id}', 'n', {hash}, '{{submit}}', ''"), "api_key_submitter_has_1_to_200_characters"),
        (format!("'{id}', 'n', '\\x00', '{{submit}}'"), "api_key_secret_hash_is_a_sha256"),
        (format!("'X', 'n', {hash}, '{{submit}}'"), "api_key_id_is_sixteen_hex_digits"),
    ] {
        let call = format!("select * from tidegate.key_create({arguments})");
        let refusal = refused(&mut session, &call).await;
        assert!(refusal.message.contains(constraint), "{refusal:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hand_can_neither_delete_nor_revive_nor_exchange_a_key() {
    let database = TestDatabase::uninitialised().await;
    let mut session = database.session().await;
    database
        .execute(
            "select tidegate.key_create('0123456789abcdef', 'n', sha256('x'), '{submit}');
             select tidegate.key_revoke('0123456789abcdef')",
        )
        .await;

    for edit in [
        "delete from tidegate.api_key",
        "truncate tidegate.api_key",
        "update tidegate.api_key set revoked_at = null, revoked_by = null",
        "update tidegate.api_key set secret_hash = sha256('y')",
        "update tidegate.api_key set id = 'fedcba9876543210'",
    ] {
        assert_eq!(refused(&mut session, edit).await.code, "TG007", "{edit}");
    }
    // What may be edited is told to the nodes.
    assert_eq!(changes(&mut session, 2).await, "");
    database.execute("update tidegate.api_key set scopes = '{submit,respond}', version = 0").await;
    assert_eq!(changes(&mut session, 2).await, "1 to 3");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_commits_late_is_not_missed() {
    let database = TestDatabase::uninitialised().await;
    let create =
        |n: u32| format!("select tidegate.key_create('000000000000000{n}', 'key {n}', sha256('x'), '{{submit}}')");
    let mut early = database.session().await;
    sqlx::raw_sql(&format!("begin; {}", create(1))).execute(&mut early).await.unwrap();
    let late = tokio::spawn({
        let pool = database.pool.clone();
        let sql = create(2);
        async move { sqlx::raw_sql(&sql).execute(&pool).await.unwrap() }
    });
    crate::support::until_blocked(&database, 1).await;
    let mut node = database.session().await;
    assert_eq!(changes(&mut node, 0).await, "");

    sqlx::raw_sql("commit").execute(&mut early).await.unwrap();
    late.await.unwrap();

    assert_eq!(changes(&mut node, 0).await, "2 to 2");
    assert_eq!(changes(&mut node, 1).await, "1 to 2");
    assert_eq!(
        value(&mut node, "select string_agg(id, ' ' order by version) from tidegate.key_changes(0)").await,
        "0000000000000001 0000000000000002"
    );
    // Pages: at most as many as asked for, in order.
    assert_eq!(value(&mut node, "select max(version) from tidegate.key_changes(0, 1)").await, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_take_a_name_at_once_one_gets_it_and_the_same_key_is_made_once() {
    let database = TestDatabase::uninitialised().await;
    let same = ApiKey::generate().unwrap();
    let creating: Vec<_> = (0..16)
        .map(|n| {
            let (key, name) = if n % 2 == 0 { (ApiKey::generate().unwrap(), "wanted") } else { (same.clone(), "same") };
            let store = database.store.clone();
            tokio::spawn(async move {
                let created = store.key_create(&key, name, &[Scope::Submit], None).await;
                (name, created.map(|created| created.created))
            })
        })
        .collect();

    let (mut wanted, mut same_made) = (0, 0);
    for created in creating {
        match created.await.unwrap() {
            ("wanted", Ok(true)) => wanted += 1,
            ("wanted", Err(error)) => assert!(error.to_string().contains("already"), "{error}"),
            ("same", Ok(made)) => same_made += i32::from(made),
            strange => panic!("{strange:?}"),
        }
    }

    assert_eq!((wanted, same_made), (1, 1));
    assert_eq!(database.store.key_list().await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_keys_are_found_by_index_however_many_keys_there_are() {
    let database = TestDatabase::uninitialised().await;
    database
        .past_triggers(
            "insert into tidegate.api_key (id, name, secret_hash, scopes, submitter, version)
             select lpad(to_hex(n), 16, '0'), 'key ' || n, sha256(n::text::bytea), '{submit}', 's', n
             from generate_series(1, 100000) as n;
             analyze tidegate.api_key",
        )
        .await;
    let mut session = database.session().await;
    let read = "select seq_scan || ' ' || idx_tup_fetch from pg_stat_xact_user_tables where relname = 'api_key'";
    sqlx::raw_sql("begin").execute(&mut session).await.unwrap();

    assert_eq!(changes(&mut session, 99_990).await, "10 to 100000");
    // 18 counts the entry behind the last, too.
    let fetched = value(&mut session, read).await;
    assert!(["0 10", "0 11"].contains(&&*fetched), "{fetched}");
    value(
        &mut session,
        "select key_submitter from tidegate.key_create(repeat('f', 16), 'new', sha256('x'), '{submit}')",
    )
    .await;
    let after = value(&mut session, read).await;
    assert!(after.starts_with("0 "), "{after}");
}
