//! Does a position deep in a queue cost a look at a few of its messages only?

use crate::support::{TestDatabase, race::Session};

#[tokio::test(flavor = "multi_thread")]
async fn a_request_for_a_position_does_not_read_the_whole_queue() {
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
                (format!("select queue_position from tidegate.request_outlook('{id}')"), 900),
                (format!("select tidegate.request_position('{id}')"), 900),
                (format!("select * from tidegate.request_eta where id = '{id}'"), 900),
                ("select queue_position from tidegate.submit('direct', '{}')".to_owned(), 900),
                ("select retry_after_seconds from tidegate.submit('public_decrypt', '{}')".to_owned(), 900),
                // Head, tail and one chunk in turn.
                ("select tidegate.survey_queue('tx', 1)".to_owned(), 5 * 16384),
            ] {
                let read = session.reads("q_tx", &call).await;
                assert_eq!(read.scans, 0, "{call} scans the queue");
                assert!(read.rows_by_index <= at_most, "{call}: {read:?}");
            }
        }
    }
}
