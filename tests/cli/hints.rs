//! Does an error say what was probably meant, and who may?

use crate::{
    cli::commands::{err, out, run},
    support::{TestDatabase, race::Session},
};

#[tokio::test]
async fn shells_complete_commands_and_their_options() {
    for shell in ["bash", "zsh", "fish"] {
        let script = out(&run("nonsense", &["completions", shell]).await);
        for word in ["redrive", "submitters", "high"] {
            assert!(script.contains(word), "{shell} does not complete {word}");
        }
    }
    let unknown = run("nonsense", &["completions", "basic"]).await;
    assert_eq!(unknown.status.code(), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_misspelt_name_is_answered_with_the_nearest_one() {
    let database = TestDatabase::new().await;
    for (arguments, nearest) in [
        (&["submit", "public-decyrpt"][..], Some("public_decrypt")),
        (&["submit", "drect"], Some("direct")),
        (&["submit", "nope"], None),
        (&["list", "--kind", "imput_proof"], Some("input_proof")),
        (&["gate", "set", "--kind", "direkt", "--high", "5"], Some("direct")),
        (&["pause", "readines"], Some("readiness")),
        (&["pause", "payouts"], None),
        (&["config", "set", "tx.per_second", "5"], Some("tx.per_seconds")),
        (&["config", "set", "direct.tx.atempts", "5"], Some("direct.tx.attempts")),
        (&["config", "get", "dirct"], Some("direct")),
        (&["config", "get", "something_else"], None),
    ] {
        let said = err(&run(&database.url, arguments).await);
        assert!(said.contains("there is no "), "{arguments:?}: {said}");
        match nearest {
            Some(name) => assert!(said.contains(&format!("did you mean {name}?")), "{arguments:?}: {said}"),
            None => assert!(!said.contains("did you mean"), "{arguments:?}: {said}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_distance_counts_single_changes_and_gives_up_beyond_the_most() {
    let database = TestDatabase::new().await;
    let mut session = Session::open(&database).await;
    for (word, other, distance) in [
        ("", "", 0),
        ("", "ab", 2),
        ("same", "same", 0),
        ("payout", "payouts", 1),
        ("payout", "ayout", 1),
        ("payout", "paxout", 1),
        ("payout", "apyout", 1),
        ("payout", "payotu", 1),
        ("sitting", "kitten", 3),
        ("ça", "ca", 1),
    ] {
        let asked =
            |word, other, most| format!("select tidegate_internal.edit_distance('{word}', '{other}', {most})::text");
        let (there, back) = (asked(word, other, 3), asked(other, word, 3));
        assert_eq!(session.text(&there).await, distance.to_string(), "{word} {other}");
        assert_eq!(session.text(&back).await, distance.to_string(), "{other} {word}");
        if distance > 0 {
            let beyond = session.text(&asked(word, other, distance - 1)).await;
            assert!(beyond.parse::<i32>().unwrap() >= distance, "{word} {other}: {beyond}");
        }
    }
    let none = "select tidegate_internal.did_you_mean(null, '{a,b}') || tidegate_internal.did_you_mean('a', '{}')";
    assert_eq!(session.text(none).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_right_is_answered_with_the_role_that_has_it() {
    let database = TestDatabase::new().await;
    let joint = if database.url.contains('?') { '&' } else { '?' };
    for (role, arguments, needed) in [
        (
            "tidegate_reader",
            &["config", "set", "tx.per_seconds", "5"][..],
            "it needs the role tidegate_admin: `grant ROLE to USER`",
        ),
        ("tidegate_reader", &["submit", "direct"], "it needs the role tidegate_api or tidegate_admin"),
        (
            "pg_read_all_settings",
            &["kind", "list"],
            "it needs the role tidegate_reader, tidegate_api, tidegate_node, tidegate_worker or tidegate_admin",
        ),
    ] {
        let url = format!("{}{joint}options[role]={role}", database.url);
        let said = err(&run(&url, arguments).await);
        assert!(said.contains(needed), "{arguments:?} as {role}: {said}");
    }
}
