//! Does the checker find requests and histories that are deleted too early or too late?

use super::{
    DAYS, EARLY, ENDED, GONE, LATE, TOLD, TOLD_BY_EVENTS, broken,
    story::{BEGIN, id, told},
};

#[tokio::test]
async fn a_request_that_is_deleted_too_early_or_too_late_is_found() {
    for (sql, found) in [
        ("update public.removed set removed_at = finished_at + interval '29 seconds'", &[EARLY][..]),
        ("update public.removed set req_status = 'tx_in_flight'", &[ENDED, TOLD_BY_EVENTS, EARLY]),
        ("update public.removed set finished_at = null", &[EARLY]),
        ("update public.removed set kind = 'direct'", &[EARLY]),
    ] {
        let verdict = told(sql, &[], |evidence| {
            evidence.promises.retain(|promise| promise.id != id(9));
            evidence.told.retain(|told| told.id != id(9));
        })
        .await;
        assert_eq!(broken(&verdict), found, "{sql}");
    }
    let verdict = told("", &[], |evidence| evidence.read_us = BEGIN + 100_000_000).await;
    assert_eq!(broken(&verdict), [LATE]);
    // A caller that reads that there is no such request, and it is still there.
    let verdict = told("", &[], |evidence| {
        evidence.told.iter_mut().for_each(|told| told.at_us = BEGIN + 50_000_000);
    })
    .await;
    assert_eq!(broken(&verdict), [TOLD]);
}

#[tokio::test]
async fn a_partition_that_goes_before_its_last_request_is_found_and_a_history_that_stays() {
    // The ids of the story begin in 1970.
    let verdict = told("", &[], |evidence| evidence.old_days.push("1970_01_01".to_owned())).await;
    assert_eq!(broken(&verdict), [DAYS]);
    let verdict = told("", &[], |evidence| {
        evidence.days.insert("2001_01_01".to_owned());
    })
    .await;
    assert_eq!(broken(&verdict), [DAYS]);
    let verdict = told("insert into tidegate.stored_event table public.removed_event", &[], |_| ()).await;
    assert_eq!(broken(&verdict), [GONE]);
    let verdict = told("truncate public.removed_event", &[], |_| ()).await;
    assert_eq!(broken(&verdict), [ENDED, TOLD_BY_EVENTS]);
}
