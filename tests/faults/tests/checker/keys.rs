//! Does the checker find keys that are lost, executed twice, or free too early?

use tidegate_faults::{checker::Verdict, evidence::Evidence, ledger::Resolution};

use super::{
    EXECUTED, KEYS, REDRIVEN, broken, found,
    story::{BEGIN, id, insert, insert_at, told, with_ids},
};

#[tokio::test]
async fn a_key_that_was_lost_is_found_and_one_that_was_free_again_is_none() {
    let life = "processing/submitted tx_in_flight/claimed failure/rejected";
    found(&insert(18, "direct", "direct", "a", life), &[KEYS]).await;
    // The first had failed before the second came, and was refused, or may have been executed.
    let failed = insert(18, "direct", "direct", "a", life).replace("18000", "17000");
    let refused = with_ids("update tidegate.request set tx_unsent = 1 where id = '{18}'");
    found(&(failed.clone() + &refused), &[]).await;
    found(&failed, &[KEYS]).await;
    // No caller has submitted it again, which would make another request.
    found("delete from tidegate.dedup where key = 'a'", &[KEYS]).await;
    found("update tidegate.dedup set expires_at = now() where key = 'a'", &[KEYS]).await;
}

/// Request 18 repeats the key of another one, so many seconds later, and is executed.
async fn repeated(seconds: i64, kind: &'static str, key: &str, change: impl FnOnce(&mut Evidence)) -> Verdict {
    let life = "processing/submitted tx_in_flight/claimed completed/receipt";
    let sql = insert_at(seconds, 18, kind, "direct", key, life);
    let at = seconds as f64 + 2.1;
    told(&sql, &[(at, 18, kind, "send"), (at, 18, kind, "taken")], |evidence| {
        for seen in &mut evidence.downstream {
            if seen.id == Some(id(18)) && &*seen.event == "taken" {
                seen.key = Some(key.into());
            }
        }
        change(evidence);
    })
    .await
}

#[tokio::test]
async fn a_key_that_is_executed_twice_is_found_unless_an_operator_allowed_it() {
    let verdict = repeated(20, "single_shot", "d", |_| {}).await;
    assert_eq!(broken(&verdict), [KEYS, EXECUTED], "{verdict}");
    // A word that comes after the second submission frees no key.
    for (at_us, rules) in [(BEGIN + 19_000_000, &[][..]), (BEGIN + 23_000_000, &[KEYS, EXECUTED])] {
        let verdict = repeated(20, "single_shot", "d", |evidence| {
            evidence.resolutions.push(Resolution { id: id(4), executed: false, at_us });
        })
        .await;
        assert_eq!(broken(&verdict), rules, "{at_us} {verdict}");
    }
    // Sends of such a kind may be repeated.
    let verdict = repeated(20, "single_shot", "d", |evidence| {
        evidence.repeatable.insert("single_shot".to_owned());
    })
    .await;
    assert!(verdict.holds(), "{verdict}");
    // The window begins with the end of a request that may have been executed, three seconds after its submission.
    for (window_us, rules) in [(16_000_000, &[][..]), (21_000_000, &[KEYS, EXECUTED])] {
        let verdict = repeated(20, "single_shot", "d", |evidence| {
            evidence.windows_us.insert("single_shot".to_owned(), window_us);
        })
        .await;
        assert_eq!(broken(&verdict), rules, "{window_us} {verdict}");
    }
    // A redrive repeats it only when it says so.
    for (may_repeat, rules) in [(true, &[][..]), (false, &[EXECUTED, REDRIVEN])] {
        let verdict = repeated(20, "single_shot", "d", |evidence| {
            evidence.redriven.insert(id(4), id(18));
            if may_repeat {
                evidence.may_repeat.insert(id(4));
            }
        })
        .await;
        assert_eq!(broken(&verdict), rules, "{may_repeat} {verdict}");
    }
}

#[tokio::test]
async fn a_key_that_no_longer_stands_for_what_may_have_been_executed_is_found() {
    found("delete from tidegate.dedup where key = 'd'", &[KEYS]).await;
}

#[tokio::test]
async fn a_key_that_is_used_again_inside_its_window_is_found() {
    let second = insert_at(10, 18, "direct", "direct", "a", "processing/submitted failure/attempts_exhausted");
    for (window, rules) in [(11_500_000, &[KEYS][..]), (9_000_000, &[])] {
        let verdict = told(&second, &[], |evidence| {
            evidence.windows_us.insert("direct".to_owned(), window);
        })
        .await;
        assert_eq!(broken(&verdict), rules, "{window}");
    }
}
