//! The Retry-After of submissions that a closed gate refuses.

use super::*;

/// The first Retry-After.
async fn first_wait(row: GateRow) -> u64 {
    let gates = reading(&Script::of([Some(vec![row])])).await;
    gates.refuse("direct", None).unwrap().seconds
}

#[tokio::test(start_paused = true)]
async fn the_wait_ends_when_the_gate_opens() {
    // 15 above the low mark at 10 per second, margin 0.2.
    assert_eq!(first_wait(closed(1)).await, 2);
    let deep = |depth| GateRow { depth, ..closed(1) };
    assert_eq!(first_wait(deep(365)).await, 42);
    assert_eq!(first_wait(deep(366)).await, 43);
    assert_eq!(first_wait(deep(15)).await, 1);
    assert_eq!(first_wait(deep(1_000_000)).await, 300);
    let at = |drain_rate, depth| GateRow {
        drain_rate,
        ..deep(depth)
    };
    assert_eq!(first_wait(at(None, 1000)).await, 1);
    assert_eq!(first_wait(at(Some(0.0), 1000)).await, 300);
    assert_eq!(first_wait(at(Some(0.0), 15)).await, 1);
    assert_eq!(first_wait(at(Some(f64::NAN), 1000)).await, 1);
    let least = GateRow {
        min_seconds: 7.0,
        ..closed(1)
    };
    assert_eq!(first_wait(least).await, 7);
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_is_held_or_does_not_move_sends_callers_away_for_longer() {
    let forced = GateRow {
        forced_wait: Some(30.0),
        depth: 0,
        ..closed(1)
    };
    assert_eq!(first_wait(forced.clone()).await, 30);
    let most = GateRow {
        max_seconds: 20.0,
        ..forced
    };
    assert_eq!(first_wait(most).await, 20);
    let still = GateRow {
        still_wait: Some(60.0),
        ..closed(1)
    };
    assert_eq!(first_wait(still.clone()).await, 60);
    let drained = GateRow { depth: 15, ..still };
    assert_eq!(first_wait(drained).await, 1);
}

#[tokio::test(start_paused = true)]
async fn the_depth_goes_on_falling_in_the_copy() {
    let deep = GateRow {
        depth: 365,
        ..closed(1)
    };
    let gates = reading(&Script::of([Some(vec![deep]), None])).await;
    assert_eq!(gates.refuse("direct", None).unwrap().seconds, 42);
    pass(Duration::from_secs(5)).await;
    // 50 less, at a margin of 0.2.
    assert_eq!(gates.refuse("direct", None).unwrap().seconds, 36);
}

#[tokio::test(start_paused = true)]
async fn submissions_beyond_the_room_come_back_one_after_the_other_wherever_they_are_refused() {
    let of_three = GateRow {
        nodes: 3.0,
        ..closed(1)
    };
    let gates = reading(&Script::of([Some(vec![of_three])])).await;
    let mut told = Vec::new();
    for nth in 0..15 {
        told.push(if nth % 2 == 0 {
            gates.refuse("direct", None).unwrap().seconds
        } else {
            let opens_in = RetryAfter::seconds(2);
            gates.in_turn("direct", None, opens_in, 1).as_secs()
        });
    }
    // It opens in 1.8 s; a third of the room is 5, and then there is one place in 0.36 s.
    assert_eq!(told, [2, 2, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 6, 6]);
    // At most until ten whole queues are served.
    for _ in 0..1000 {
        assert!(gates.refuse("direct", None).unwrap().seconds <= 32);
    }
    assert_eq!(gates.refuse("direct", None).unwrap().seconds, 32);
}

#[tokio::test(start_paused = true)]
async fn turns_outlive_readings_and_flips() {
    let script = Script::of([Some(vec![closed(1)]), Some(vec![closed(1)]), Some(vec![closed(3)])]);
    let gates = reading(&script).await;
    let ask = |gates: &Gates| gates.refuse("direct", None).unwrap().seconds;
    for _ in 0..15 {
        assert_eq!(ask(&gates), 2);
    }
    assert_eq!(ask(&gates), 2);
    assert_eq!(ask(&gates), 3);
    gates.may_have_missed();
    pass(PAUSE).await;
    assert_eq!(ask(&gates), 3);

    gates.may_have_missed();
    pass(PAUSE).await;

    assert_eq!(ask(&gates), 3);
}

#[tokio::test(start_paused = true)]
async fn a_batch_for_which_an_open_gate_has_no_room_takes_no_turn() {
    let script = Script::of([Some(vec![GateRow { depth: 15, ..open(0) }])]);
    let gates = reading(&script).await;
    let told = RetryAfter::SOON;
    for _ in 0..10 {
        assert_eq!(gates.in_turn("direct", None, told, 20), told);
    }
}

#[tokio::test(start_paused = true)]
async fn those_refused_before_the_notification_count_as_well() {
    let script = Script::of([Some(vec![GateRow { depth: 29, ..open(0) }])]);
    let gates = reading(&script).await;
    for _ in 0..20 {
        let told = gates.in_turn("direct", None, RetryAfter::seconds(2), 1);
        assert!(told.as_secs() >= 2);
    }

    gates.heard(&told(CLOSES, 1));

    // The room of 15 is taken already.
    assert_eq!(gates.refuse("direct", None).unwrap().seconds, 3);
}

#[tokio::test(start_paused = true)]
async fn jitter_makes_waits_longer_and_never_shorter() {
    let spread = GateRow {
        depth: 365,
        jitter: 0.5,
        ..closed(1)
    };
    let gates = reading(&Script::of([Some(vec![spread])])).await;
    let mut all = Vec::new();
    // As many as there is room for: all get the same time but for the jitter.
    for _ in 0..15 {
        all.push(gates.refuse("direct", None).unwrap().seconds);
    }
    assert!(all.iter().all(|seconds| (42..=64).contains(seconds)), "{all:?}");
    all.sort_unstable();
    all.dedup();
    assert!(all.len() > 3, "{all:?}");
}

#[tokio::test(start_paused = true)]
async fn room_is_what_is_left_and_none_behind_a_closed_gate() {
    let gate = async |row: GateRow| {
        let gates = reading(&Script::of([Some(vec![row])])).await;
        gates.of_submission("direct", None, false).unwrap()
    };
    let at = |depth| GateRow { depth, ..open(0) };
    assert_eq!(gate(at(0)).await.room(), 30);
    assert_eq!(gate(at(29)).await.room(), 1);
    assert_eq!(gate(at(31)).await.room(), 0);
    assert_eq!(gate(GateRow { depth: 3, ..closed(0) }).await.room(), 0);

    let draining = gate(at(0)).await;
    assert_eq!(draining.seconds_to_drain(0), Some(1));
    assert_eq!(draining.seconds_to_drain(20), Some(2));
    assert_eq!(draining.seconds_to_drain(21), Some(3));
    for rate in [None, Some(0.0), Some(-1.0), Some(f64::NAN)] {
        let gate = gate(GateRow {
            drain_rate: rate,
            ..open(0)
        })
        .await;
        assert_eq!(gate.seconds_to_drain(1), None);
    }
    let slow = GateRow {
        drain_rate: Some(f64::MIN_POSITIVE),
        ..open(0)
    };
    assert_eq!(gate(slow).await.seconds_to_drain(1), Some(999_999_999_999_999));
}
