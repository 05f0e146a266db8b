//! Is a delivery that fails repeated as its policy says, and given up with the reason?

use std::time::Duration;

use axum::{
    body::Body,
    http::{StatusCode, header},
    response::Redirect,
};
use tidegate::request::RequestId;
use tokio::net::TcpListener;

use super::{Deliverer, Receiver, quiet};
use crate::support::{TestDatabase, eventually, rest, sql};

async fn column(database: &TestDatabase, id: RequestId, name: &str) -> String {
    database.delivery(id, name).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_is_repeated_until_the_receiver_accepts() {
    let database = TestDatabase::unlimited().await;
    database.no_backoff().await;
    let receiver = Receiver::allowed(&database).await;
    receiver
        .then(StatusCode::INTERNAL_SERVER_ERROR)
        .then(StatusCode::TOO_MANY_REQUESTS)
        .then(StatusCode::NOT_FOUND)
        .then(StatusCode::CREATED);
    let id = database.ended_telling(&receiver.url()).await;
    let _deliverer = Deliverer::of(&database);
    database.until_delivery_is(id, "delivered").await;

    assert_eq!(column(&database, id, "attempt").await, "4");
    assert_eq!(column(&database, id, "last_status").await, "201");
    assert_eq!(column(&database, id, "last_error").await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn when_its_attempts_are_used_up_a_delivery_has_failed_and_says_why() {
    let database = TestDatabase::unlimited().await;
    database.no_backoff().await;
    database.execute("update tidegate.webhook_policy set attempts = 3").await;
    let receiver = Receiver::allowed(&database).await;
    for _ in 0..3 {
        receiver.then(StatusCode::SERVICE_UNAVAILABLE);
    }
    let id = database.ended_telling(&receiver.url()).await;
    let _deliverer = Deliverer::of(&database);
    database.until_delivery_is(id, "failed").await;
    quiet().await;

    assert_eq!(receiver.count(), 3);
    assert_eq!(column(&database, id, "last_status").await, "503");
    let error = column(&database, id, "last_error").await;
    assert!(error.contains("503"), "{error}");

    // All its attempts again.
    database.store.webhook_redeliver(id).await.unwrap();
    database.until_delivery_is(id, "delivered").await;
    assert_eq!(receiver.received()[3].header("tidegate-attempt"), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_is_gone_is_not_asked_again() {
    let database = TestDatabase::unlimited().await;
    database.no_backoff().await;
    let receiver = Receiver::allowed(&database).await;
    receiver.then(StatusCode::GONE);
    let id = database.ended_telling(&receiver.url()).await;
    let _deliverer = Deliverer::of(&database);
    database.until_delivery_is(id, "failed").await;
    quiet().await;

    assert_eq!(receiver.count(), 1);
    assert_eq!(column(&database, id, "last_status").await, "410");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_says_when_to_come_back_within_the_policys_cap() {
    let database = TestDatabase::unlimited().await;
    let receiver = Receiver::allowed(&database).await;
    // The wait that a last attempt asks for is written, too, and no other attempt overwrites it.
    database.execute("update tidegate.webhook_policy set attempts = 1").await;
    let _deliverer = Deliverer::of(&database);

    for (asked, least, most) in [("120", 120.0, 120.0), ("999999", 600.0, 600.0), ("soon", 0.0, 1.0)] {
        receiver.then((StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, asked)]));
        let id = database.ended_telling(&receiver.url()).await;
        database.until_delivery_is(id, "failed").await;
        let wait: f64 =
            column(&database, id, "extract(epoch from due_at - finished_at)::float8").await.parse().unwrap();
        assert!((least..=most).contains(&wait), "{asked}: {wait} s");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wait_between_attempts_is_random_up_to_a_bound_that_grows() {
    let database = TestDatabase::unlimited().await;
    let receiver = Receiver::allowed(&database).await;
    let id = database.ended_telling(&receiver.url()).await;

    for (attempt, most) in [(1, 1.0), (2, 3.0), (3, 9.0), (7, 600.0)] {
        let mut waits = Vec::new();
        for _ in 0..20 {
            let settle = format!(
                "update tidegate.webhook_delivery set lease_token = 7, attempt = {attempt};
                 select tidegate.webhook_settle('{id}', 7, 'retry')"
            );
            database.execute(&settle).await;
            let wait: f64 = database
                .value("select extract(epoch from due_at - clock_timestamp())::float8 from tidegate.webhook_delivery")
                .await
                .parse()
                .unwrap();
            assert!(wait <= most, "attempt {attempt}: {wait} s");
            waits.push(wait);
        }
        let longest = waits.iter().copied().fold(f64::MIN, f64::max);
        let shortest = waits.iter().copied().fold(f64::MAX, f64::min);
        assert!(longest > most / 2.0, "attempt {attempt}: {waits:?}");
        assert!(shortest < most / 2.0, "attempt {attempt}: {waits:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_not_followed() {
    let database = TestDatabase::unlimited().await;
    database.no_backoff().await;
    let receiver = Receiver::allowed(&database).await;
    let elsewhere = Receiver::allowed(&database).await;
    receiver.then(Redirect::temporary(&elsewhere.url())).then(Redirect::permanent(&elsewhere.url()));
    let id = database.ended_telling(&receiver.url()).await;
    let _deliverer = Deliverer::of(&database);
    database.until_delivery_is(id, "delivered").await;

    assert_eq!(receiver.count(), 3);
    assert_eq!(elsewhere.count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_ten_megabytes_or_without_an_end_does_no_harm() {
    let database = TestDatabase::unlimited().await;
    let receiver = Receiver::allowed(&database).await;
    // Reading to the end would take longer than this test.
    database.execute("update tidegate.webhook_policy set timeout_ms = 60000").await;
    let endless = futures_util::stream::repeat_with(|| {
        Ok::<_, std::convert::Infallible>(axum::body::Bytes::from_static(&[b'x'; 65536]))
    });
    let silent = futures_util::stream::pending::<Result<axum::body::Bytes, std::io::Error>>();
    receiver.then(vec![b'x'; 10 * 1024 * 1024]).then(Body::from_stream(endless)).then(Body::from_stream(silent));
    let _deliverer = Deliverer::of(&database);

    for _ in 0..3 {
        let id = database.ended_telling(&receiver.url()).await;
        database.until_delivery_is(id, "delivered").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_does_not_answer_in_time_is_tried_again() {
    let database = TestDatabase::unlimited().await;
    database.no_backoff().await;
    database.execute("update tidegate.webhook_policy set timeout_ms = 300, attempts = 2").await;
    let receiver = Receiver::allowed(&database).await;
    receiver.hold.send(true).unwrap();
    let id = database.ended_telling(&receiver.url()).await;
    let _deliverer = Deliverer::of(&database);
    database.until_delivery_is(id, "failed").await;

    assert_eq!(receiver.count(), 2);
    let error = column(&database, id, "last_error").await;
    assert!(error.contains("no answer within 300ms"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_does_not_answer_or_speaks_no_http_is_tried_again() {
    let database = TestDatabase::unlimited().await;
    database.no_backoff().await;
    database.execute("update tidegate.webhook_policy set attempts = 2").await;
    let gone = Receiver::allowed(&database).await;
    let url = gone.url();
    drop(gone);
    let refused = database.ended_telling(&url).await;

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let host = format!("127.0.0.1:{port}");
    database.store.webhook_host_add(&host, true).await.unwrap();
    tokio::spawn(async move {
        use tokio::io::AsyncWriteExt;
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"\0\xff nonsense\r\n\r\n").await;
        }
    });
    let nonsense = database.ended_telling(&format!("http://{host}/done")).await;
    let _deliverer = Deliverer::of(&database);

    for id in [refused, nonsense] {
        database.until_delivery_is(id, "failed").await;
        assert_eq!(column(&database, id, "attempt").await, "2");
        let error = column(&database, id, "last_error").await;
        assert!(error.starts_with("failed to send: "), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_hangs_with_a_backlog_does_not_hold_up_the_others() {
    let database = TestDatabase::unlimited().await;
    let poison = Receiver::allowed(&database).await;
    poison.hold.send(true).unwrap();
    for _ in 0..100 {
        database.ended_telling(&poison.url()).await;
    }
    let good = Receiver::allowed(&database).await;
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(database.ended_telling(&good.url()).await);
    }
    let _deliverer = Deliverer::of(&database);
    poison.until(1).await;

    for id in ids {
        database.until_delivery_is(id, "delivered").await;
    }
    assert_eq!(poison.count(), 1, "it has never answered");
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_that_never_answer_delay_each_other_only_however_many_they_are() {
    for silent in [5, 40] {
        let database = TestDatabase::unlimited().await;
        database.execute("update tidegate.webhook_policy set timeout_ms = 60000").await;
        let good = Receiver::allowed(&database).await;
        let _deliverer = Deliverer::of(&database);
        if silent > 16 {
            // It has answered before; of more than a few new hosts one may have to wait for its first turn.
            let id = database.ended_telling(&good.url()).await;
            database.until_delivery_is(id, "delivered").await;
        }
        let mut receivers = Vec::new();
        for _ in 0..silent {
            let receiver = Receiver::allowed(&database).await;
            receiver.hold.send(true).unwrap();
            for _ in 0..10 {
                database.ended_telling(&receiver.url()).await;
            }
            receivers.push(receiver);
        }
        let called = || receivers.iter().map(Receiver::count).sum::<usize>();
        eventually("they have their share", || async { called() == silent.min(16) }).await;

        let mut ids = Vec::new();
        for _ in 0..20 {
            ids.push(database.ended_telling(&good.url()).await);
        }
        for id in ids {
            database.until_delivery_is(id, "delivered").await;
        }
        assert_eq!(called(), silent.min(16), "one each, and half of what this process delivers at once");

        // A host that comes back gets all of its deliveries.
        let again = &receivers[0];
        receivers.iter().for_each(|receiver| receiver.hold.send(false).unwrap());
        eventually("it has all", || async { again.count() >= 10 }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_whose_last_attempt_was_lost_with_its_deliverer_has_failed() {
    let database = TestDatabase::unlimited().await;
    database.execute("update tidegate.webhook_policy set attempts = 2").await;
    let receiver = Receiver::allowed(&database).await;
    let id = database.ended_telling(&receiver.url()).await;
    for _ in 0..2 {
        assert_eq!(database.store.webhook_claim(1, 1).await.unwrap().len(), 1);
        database.all_due().await;
    }

    assert!(database.store.webhook_claim(1, 1).await.unwrap().is_empty());
    assert_eq!(column(&database, id, "state").await, "failed");
    assert_eq!(column(&database, id, "last_error").await, "no attempt is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_go_on_when_the_database_was_away() {
    let database = TestDatabase::unlimited().await;
    let receiver = Receiver::allowed(&database).await;
    let _deliverer = Deliverer::of(&database);
    let first = database.ended_telling(&receiver.url()).await;
    database.until_delivery_is(first, "delivered").await;

    receiver.hold.send(true).unwrap();
    let second = database.ended_telling(&receiver.url()).await;
    receiver.until(2).await;
    // Every connection of the deliverer's is cut while it waits for its receiver.
    database
        .execute(
            "select pg_terminate_backend(pid) from pg_stat_activity
             where datname = current_database() and pid <> pg_backend_pid()",
        )
        .await;
    receiver.hold.send(false).unwrap();

    // The pool's connections are cut; they are found out when they are used.
    let mut session = database.session().await;
    let state = format!("select state from tidegate.webhook_delivery where request_id = '{second}'");
    let settled = async {
        while sql::column(&mut session, &state).await != ["delivered"] {
            rest().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), settled).await.expect("the delivery is settled");
    assert_eq!(receiver.count(), 2, "settled, not delivered again");
}
