//! Does retention drop the history of requests that are gone, and old events, and nothing else?

use super::{VIOLATIONS, aged, partition, stage};
use crate::support::race::{NOTHING, Session};

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_of_the_history_is_dropped_when_its_requests_are_gone_and_no_transaction_holds_it() {
    let (database, mut session) = stage().await;
    let full = partition(&mut session, 30).await;
    let empty = partition(&mut session, 40).await;
    let kept_day = partition(&mut session, 5).await;
    aged(&database, "direct", "failure", 30, 30).await;
    aged(&database, "direct", "failure", 5, 5).await;
    let drop = "select tidegate.drop_partitions()";

    let mut reader = Session::begin(&database).await;
    reader.execute("select count(*) from tidegate.request_event").await;
    assert_eq!(session.text(drop).await, "", "a reader is in the way");
    database.submit("direct").await;
    reader.rollback().await;

    assert_eq!(session.text(drop).await, empty);
    assert_eq!(session.text(drop).await, "");
    let of_day = format!("select count(*) from tidegate.{full}");
    assert_eq!(session.text(&of_day).await, "2");
    session.texts("select expired from tidegate.expire_requests()").await;
    assert_eq!(session.text(&of_day).await, "0", "a history goes with its request");
    assert_eq!(session.text(drop).await, full);
    assert_eq!(session.text(drop).await, "");
    assert_eq!(session.text(&format!("select count(*) from tidegate.{kept_day}")).await, "2");
    assert_eq!(session.texts(VIOLATIONS).await, NOTHING);
}

#[tokio::test(flavor = "multi_thread")]
async fn old_events_of_gates_breakers_and_policies_are_deleted_but_for_the_latest() {
    let (database, mut session) = stage().await;
    database
        .execute(
            "insert into tidegate.gate_event (gate, epoch, state, depth, cause, at)
             select g, n, 'accepting', 0, 'test', now() - (10 - n) * interval '10 days'
             from generate_series(1, 9) as n, unnest(array['tx', 'kind gone']) as g;
             insert into tidegate.breaker_event (kind, stage, epoch, state, cause, at)
             select 'direct', 'tx', n, 'closed', 'test', now() - (10 - n) * interval '10 days' from generate_series(1, 5) as n;
             update tidegate.setting set event_retention = '35 days'",
        )
        .await;
    for attempts in [4, 3, 2] {
        database
            .execute(&format!(
                "update tidegate.policy set attempts = {attempts} where kind in ('direct', 'input_proof') and stage = 'tx'"
            ))
            .await;
    }
    // Versions 1 and 2 were followed by another before the oldest request that is kept; 3 was not.
    database
        .execute(
            "update tidegate.policy_change set at = at - interval '100 days' where kind in ('direct', 'input_proof') and version <= 3",
        )
        .await;
    let changes = database.number("select count(*) from tidegate.config_change").await;

    assert_eq!(session.text("select tidegate.expire_events(3)").await, "3");
    assert_eq!(
        session.text("select tidegate.expire_events()").await,
        "15",
        "18 in all: 12 of gates, 4 of breakers, 2 versions"
    );
    assert_eq!(session.text("select tidegate.expire_events()").await, "0");

    assert_eq!(
        session.texts("select gate, min(epoch), max(epoch) from tidegate.gate_event group by gate order by gate").await,
        ["kind gone 7 9", "tx 7 9"]
    );
    assert_eq!(session.texts("select epoch from tidegate.breaker_event").await, ["5"]);
    assert_eq!(
        session
            .texts("select kind, min(version), max(version) from tidegate.policy_change where kind in ('direct', 'input_proof') and stage = 'tx' group by kind order by kind")
            .await,
        ["direct 3 4", "input_proof 1 4"],
        "a kind that keeps its requests keeps what they are judged by"
    );
    assert_eq!(database.number("select count(*) from tidegate.config_change").await, changes);
}
