//! Are the formulas of Retry-After those of the design, to the second, for any input?

use proptest::{option, prelude::*};

use crate::support::{
    TestDatabase,
    property::{Asked, for_all},
};

/// `tidegate.eta_seconds(place, p, Q, D, C, R, P, T, M, min, max)`.
fn eta(place: &str, p: &str, q: &str, rest: &str) -> String {
    format!("select tidegate.eta_seconds('{place}', {p}, {q}, {rest})")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_worked_tables_of_the_design_come_out() {
    let database = TestDatabase::new().await;
    let proof = "10, 50, 2000, 2000, 100, 0.2, 1, 300";
    let decrypt = "10, 50, 2000, 4000, 100, 0.2, 1, 300";
    let positions = [0, 1, 10, 100, 1000];

    for (place, parameters, seconds) in [
        ("tx_queue", proof, [3, 3, 4, 15, 123]),
        ("readiness_queue", decrypt, [5, 6, 7, 20, 149]),
        ("checking", decrypt, [8, 8, 9, 20, 128]),
        ("tx_queue", decrypt, [5, 6, 7, 17, 125]),
        ("tx_in_flight", proof, [3; 5]),
        ("tx_in_flight", decrypt, [5; 5]),
    ] {
        for (p, expected) in positions.into_iter().zip(seconds) {
            // Under check, the position in the queue is that of a held message: 0.
            let position = if place == "checking" { 0 } else { p };
            let asked = eta(place, &position.to_string(), &p.to_string(), parameters);
            assert_eq!(database.number(&asked[7..]).await, expected, "{asked}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_summary_of_the_design_comes_out_of_real_queues() {
    let database = TestDatabase::new().await;
    // A hundred in front of each, as many in the tx queue.
    database
        .execute(
            "select tidegate.submit_batch('input_proof', array_fill('{}'::jsonb, array[100]));
             select tidegate.submit_batch('public_decrypt', array_fill('{}'::jsonb, array[100]))",
        )
        .await;
    let last = |kind: &str| {
        format!(
            "tidegate.request_retry_after((select max(id::text)::uuid from tidegate.request where kind = '{kind}'))"
        )
    };

    database.submit("public_decrypt").await;
    assert_eq!(database.number(&last("public_decrypt")).await, 20);
    database.submit("input_proof").await;
    assert_eq!(database.number(&last("input_proof")).await, 15);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_rounding_before_the_last_division() {
    let database = TestDatabase::new().await;
    for (place, p, q, rest, expected) in [
        // 2500 ms × 1.2 is exactly 3 s.
        ("tx_in_flight", "0", "0", "10, 50, 0, 2500, 0, 0.2, 1, 300", "3"),
        ("tx_queue", "0", "0", "null, 50, 0, 2400, 100, 0.2, 1, 300", "3"),
        // Two at 3 a second and 1 s of work, × 1.2: exactly 2 s.
        ("tx_queue", "2", "0", "3, null, 0, 900, 100, 0.2, 1, 300", "2"),
        ("readiness_queue", "0", "2", "3, 7, 0, 900, 100, 0.2, 1, 300", "2"),
        // A third of a second three times is one.
        ("readiness_queue", "1", "2", "3, 3, 0, 0, 0, 0, 1, 300", "1"),
        ("readiness_queue", "1", "2", "3, 3, 0, 1, 0, 0, 1, 300", "2"),
        // Fractional rates.
        ("tx_queue", "1", "0", "0.1, null, 0, 0, 0, 0, 1, 300", "10"),
        ("tx_queue", "1", "0", "0.3, null, 0, 0, 0, 0.2, 1, 300", "4"),
        ("tx_queue", "1000000", "0", "1000000, null, 0, 0, 0, 1, 1, 300", "2"),
        // Limits: none, and stopped.
        ("tx_queue", "1000000", "0", "null, 50, 0, 0, 0, 0, 1, 300", "1"),
        ("readiness_queue", "1000000", "0", "10, null, 0, 2000, 100, 0, 1, 300", "3"),
        ("readiness_queue", "1000000", "1000000", "null, null, 0, 2000, 100, 0, 1, 300", "3"),
        ("tx_queue", "0", "0", "0, 50, 0, 0, 0, 0, 1, 300", "300"),
        ("checking", "0", "0", "0, 50, 0, 0, 0, 0, 1, 300", "300"),
        ("readiness_queue", "0", "0", "10, 0, 0, 0, 0, 0, 1, 300", "300"),
        ("readiness_queue", "0", "0", "0, 10, 0, 0, 0, 0, 1, 300", "300"),
        ("readiness_queue", "0", "0", "null, 0, 0, 0, 0, 0, 1, 300", "300"),
        // What is stopped does not matter to a request that is past it.
        ("checking", "0", "0", "10, 0, 2000, 2000, 0, 0, 1, 300", "4"),
        ("tx_queue", "0", "0", "10, 0, 0, 2000, 0, 0, 1, 300", "2"),
        ("tx_in_flight", "0", "0", "0, 0, 0, 2000, 0, 0, 1, 300", "2"),
        // Clamps.
        ("tx_in_flight", "0", "0", "10, 50, 0, 0, 0, 0, 1, 300", "1"),
        ("tx_in_flight", "0", "0", "10, 50, 0, 0, 0, 0, 7, 300", "7"),
        ("tx_in_flight", "0", "0", "10, 50, 0, 86400000, 0, 1, 1, 86400", "86400"),
        ("tx_in_flight", "0", "0", "10, 50, 0, 5000, 0, 0, 5, 5", "5"),
        // Nothing overflows.
        (
            "readiness_queue",
            "9223372036854775807",
            "9223372036854775807",
            "0.000001, 1, 86400000, 86400000, 86400000, 1, 1, 300",
            "300",
        ),
        (
            "readiness_queue",
            "9223372036854775807",
            "9223372036854775807",
            "1000000, 2147483647, 0, 0, 0, 0, 1, 2147483647",
            "2147483647",
        ),
        ("checking", "0", "9223372036854775807", "1e-30, 1, 2147483647, 2147483647, 2147483647, 1, 1, 300", "300"),
        ("no_such_place", "0", "0", "10, 50, 0, 0, 0, 0, 1, 300", ""),
    ] {
        let asked = eta(place, p, q, rest);
        assert_eq!(database.value(&asked).await, expected, "{asked}");
    }
}

#[derive(Debug, Clone)]
struct Case {
    place: usize,
    p: i64,
    q: i64,
    /// D in thousandths per second.
    d: Option<i64>,
    c: Option<i32>,
    r: i32,
    processing: i32,
    t: i32,
    /// M in thousandths.
    m: i32,
    min: i32,
    spread: i32,
}

const PLACES: [&str; 4] = ["readiness_queue", "checking", "tx_queue", "tx_in_flight"];

fn cases() -> impl Strategy<Value = Case> {
    let queue = prop_oneof![Just(0i64), 0i64..20, 0i64..3000, 0i64..1_000_000_000];
    let millis = prop_oneof![Just(0i32), 0i32..10, 0i32..10_000, 0i32..86_400_000];
    let rate = prop_oneof![Just(0i64), 1i64..20, (1i64..50).prop_map(|d| d * 1000), 1i64..1_000_000_000];
    (
        0..PLACES.len(),
        (queue.clone(), queue),
        option::weighted(0.9, rate),
        option::weighted(0.9, prop_oneof![Just(0i32), 1i32..10, 1i32..2000]),
        (millis.clone(), millis.clone(), millis),
        prop_oneof![Just(200i32), 0i32..=1000],
        (1i32..100, 0i32..1_000_000),
    )
        .prop_map(|(place, (p, q), d, c, (r, processing, t), m, (min, spread))| Case {
            place,
            p,
            q,
            d,
            c,
            r,
            processing,
            t,
            m,
            min,
            spread,
        })
}

/// The formula as the design writes it, over exact fractions.
fn expected(case: &Case) -> i128 {
    let max = i128::from(case.min) + i128::from(case.spread);
    let readiness = case.place == 0;
    if (readiness && case.c == Some(0)) || (case.place != 3 && case.d == Some(0)) {
        return max;
    }
    let fixed = match case.place {
        0 | 2 => i128::from(case.processing) + i128::from(case.t),
        1 => i128::from(case.r) + i128::from(case.processing) + i128::from(case.t),
        _ => i128::from(case.processing),
    };
    let ahead = match case.place {
        0 | 1 => i128::from(case.q),
        2 => i128::from(case.p),
        _ => 0,
    };
    // (numerator, denominator) of each term, in milliseconds.
    let checks = match case.c {
        Some(c) if readiness => (i128::from(case.p) * 1000, i128::from(c)),
        _ => (0, 1),
    };
    let drain = match case.d {
        Some(d) if case.place != 3 => (ahead * 1_000_000, i128::from(d)),
        _ => (0, 1),
    };
    let above = (fixed * checks.1 * drain.1 + checks.0 * drain.1 + drain.0 * checks.1) * (1000 + i128::from(case.m));
    let below = checks.1 * drain.1 * 1000 * 1000;
    let seconds = above / below + i128::from(above % below != 0);
    seconds.clamp(i128::from(case.min), max)
}

#[test]
fn any_eta_is_the_exact_fraction_rounded_up_once() {
    let database = Asked::new();
    let number = |value: Option<String>| value.unwrap_or_else(|| "null".to_owned());
    for_all(2000, &cases(), |case| {
        let thousandths = |value: i64| format!("{}.{:03}", value / 1000, value % 1000);
        let rest = format!(
            "{}, {}, {}, {}, {}, {}, {}, {}",
            number(case.d.map(thousandths)),
            number(case.c.map(|c| c.to_string())),
            case.r,
            case.processing,
            case.t,
            thousandths(case.m.into()),
            case.min,
            case.min + case.spread
        );
        let asked = eta(PLACES[case.place], &case.p.to_string(), &case.q.to_string(), &rest);
        prop_assert_eq!(database.value(&asked), expected(&case).to_string(), "{}", asked);
        Ok(())
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_a_response_backs_off_by_the_table_and_its_edges_belong_to_the_later_row() {
    let database = TestDatabase::new().await;
    for (elapsed, seconds) in [
        ("-1 second", 4),
        ("0", 4),
        ("59.999 s", 4),
        ("59.999999 s", 4),
        ("60 s", 10),
        ("119.999 s", 10),
        ("2 minutes", 30),
        ("299.999 s", 30),
        ("300 s", 60),
        ("899.999 s", 60),
        ("15 minutes", 300),
        ("400 days", 300),
    ] {
        let asked = format!("tidegate.response_backoff_seconds('{elapsed}')");
        assert_eq!(database.number(&asked).await, seconds, "{elapsed}");
    }

    // No margin and no clamp; other rows at once.
    database
        .execute(
            "update tidegate.setting set min_seconds = 20, max_seconds = 25;
             insert into tidegate.response_backoff values ('10 s', 6)",
        )
        .await;
    assert_eq!(database.number("tidegate.response_backoff_seconds('9 s')").await, 4);
    assert_eq!(database.number("tidegate.response_backoff_seconds('10 s')").await, 6);
    assert_eq!(database.number("tidegate.response_backoff_seconds('1 h')").await, 300);

    let id = database.request_in("direct", "receipt_received").await;
    for (ago, seconds) in [("0 s", 4), ("11 s", 6), ("61 s", 10), ("20 minutes", 300)] {
        database
            .execute(&format!("update tidegate.request set receipt_received_at = clock_timestamp() - interval '{ago}'"))
            .await;
        assert_eq!(database.number(&format!("tidegate.request_retry_after('{id}')")).await, seconds, "{ago}");
    }
}
