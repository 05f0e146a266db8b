//! Does a position deep in a queue cost a look at a few of its messages only?

use crate::support::{TestDatabase, race::Session};

/// Sequential scans of the queue so far, and rows of it read by index.
async fn reads(session: &mut Session) -> (i64, i64) {
    session.texts("select pg_stat_force_next_flush()").await;
    let read = session
        .text("select seq_scan, idx_tup_fetch from pg_stat_user_tables where relname = 'q_tx'")
        .await;
    let (scans, rows) = read.split_once(' ').unwrap();
    (scans.parse().unwrap(), rows.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_who_asks_for_a_position_reads_the_queue() {
    let database = TestDatabase::deep().await;
    let mut session = Session::open(&database).await;
    for vacuumed in [false, true] {
        if vacuumed {
            session.execute("vacuum analyze pgmq.q_tx").await;
        }
        session.texts("select tidegate.survey_queue('tx')").await;
        let ids = session
            .texts("select m.message ->> 'id' from pgmq.q_tx as m where m.msg_id % 7001 = 0 order by m.msg_id")
            .await;
        for id in ids {
            for (call, at_most) in [
                (
                    format!("select queue_position from tidegate.request_outlook('{id}')"),
                    900,
                ),
                (format!("select tidegate.request_position('{id}')"), 900),
                (
                    format!("select * from tidegate.request_eta where id = '{id}'"),
                    900,
                ),
                (
                    "select queue_position from tidegate.submit('direct', '{}')".to_owned(),
                    900,
                ),
                (
                    "select retry_after_seconds from tidegate.submit('public_decrypt', '{}')"
                        .to_owned(),
                    900,
                ),
                // Head, tail and one stretch in turn.
                (
                    "select tidegate.survey_queue('tx', 1)".to_owned(),
                    5 * 16384,
                ),
            ] {
                let (scans, rows) = reads(&mut session).await;
                session.texts(&call).await;
                let (scans_after, rows_after) = reads(&mut session).await;
                assert_eq!(scans_after, scans, "{call} scans the queue");
                assert!(
                    rows_after - rows <= at_most,
                    "{call} reads {} messages",
                    rows_after - rows
                );
            }
        }
    }
}
