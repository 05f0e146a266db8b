//! The Retry-After of submissions that a closed gate refuses.

use std::collections::BTreeSet;

use super::*;

/// The first Retry-After of a closed gate with other values.
async fn first_wait(change: impl FnOnce(&mut GateRow)) -> u64 {
    copy_of(with(closed(1), change)).await.refuse("direct", None).unwrap().seconds
}

#[tokio::test(start_paused = true)]
async fn the_wait_ends_when_the_gate_opens() {
    // 15 above the low mark at 10 per second, margin 0.2.
    assert_eq!(first_wait(|_| ()).await, 2);
    for (depth, seconds) in [(365, 42), (366, 43), (15, 1), (1_000_000, 300)] {
        assert_eq!(first_wait(|gate| gate.depth = depth).await, seconds, "{depth}");
    }
    for (rate, depth, seconds) in
        [(None, 1000, 1), (Some(0.0), 1000, 300), (Some(0.0), 15, 1), (Some(f64::NAN), 1000, 1)]
    {
        let wait = first_wait(|gate| (gate.drain_rate, gate.depth) = (rate, depth)).await;
        assert_eq!(wait, seconds, "{rate:?}, {depth}");
    }
    assert_eq!(first_wait(|gate| gate.min_seconds = 7.0).await, 7);
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_is_held_or_does_not_move_sends_callers_away_for_longer() {
    let forced = |gate: &mut GateRow| (gate.forced_wait, gate.depth) = (Some(30.0), 0);
    assert_eq!(first_wait(forced).await, 30);
    let most = |gate: &mut GateRow| {
        forced(gate);
        gate.max_seconds = 20.0;
    };
    assert_eq!(first_wait(most).await, 20);
    assert_eq!(first_wait(|gate| gate.still_wait = Some(60.0)).await, 60);
    let drained = |gate: &mut GateRow| (gate.still_wait, gate.depth) = (Some(60.0), 15);
    assert_eq!(first_wait(drained).await, 1);
}

#[tokio::test(start_paused = true)]
async fn the_depth_goes_on_falling_in_the_copy() {
    let deep = with(closed(1), |gate| gate.depth = 365);
    let gates = reading(&Script::of([Some(vec![deep]), None])).await;
    assert_eq!(gates.refuse("direct", None).unwrap().seconds, 42);
    pass(Duration::from_secs(5)).await;
    // 50 less, at a margin of 0.2.
    assert_eq!(gates.refuse("direct", None).unwrap().seconds, 36);
}

#[tokio::test(start_paused = true)]
async fn submissions_beyond_the_room_come_back_one_after_the_other_wherever_they_are_refused() {
    let gates = copy_of(with(closed(1), |gate| gate.nodes = 3.0)).await;
    let mut waits = Vec::new();
    for nth in 0..15 {
        waits.push(if nth % 2 == 0 {
            gates.refuse("direct", None).unwrap().seconds
        } else {
            let opens_in = RetryAfter::seconds(2);
            gates.in_turn("direct", None, opens_in, 1).as_secs()
        });
    }
    // It opens in 1.8 s; a third of the room is 5, and then there is one place in 0.36 s.
    assert_eq!(waits, [2, 2, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 6, 6]);
    // At most until ten whole queues are served.
    for _ in 0..1000 {
        assert!(gates.refuse("direct", None).unwrap().seconds <= 32);
    }
    assert_eq!(gates.refuse("direct", None).unwrap().seconds, 32);
}

#[tokio::test(start_paused = true)]
async fn turns_outlive_readings_and_flips() {
    let script = Script::of([1, 1, 3].map(|epoch| Some(vec![closed(epoch)])));
    let gates = reading(&script).await;
    let ask = |gates: &Gates| gates.refuse("direct", None).unwrap().seconds;
    for _ in 0..15 {
        assert_eq!(ask(&gates), 2);
    }
    assert_eq!(ask(&gates), 2);
    assert_eq!(ask(&gates), 3);
    gates.on_reconnect();
    pass(PAUSE).await;
    assert_eq!(ask(&gates), 3);

    gates.on_reconnect();
    pass(PAUSE).await;

    assert_eq!(ask(&gates), 3);
}

#[tokio::test(start_paused = true)]
async fn a_batch_for_which_an_open_gate_has_no_room_takes_no_turn() {
    let gates = copy_of(with(open(0), |gate| gate.depth = 15)).await;
    let soon = RetryAfter::SOON;
    for _ in 0..10 {
        assert_eq!(gates.in_turn("direct", None, soon, 20), soon);
    }
}

#[tokio::test(start_paused = true)]
async fn those_refused_before_the_notification_count_as_well() {
    let gates = copy_of(with(open(0), |gate| gate.depth = 29)).await;
    for _ in 0..20 {
        let wait = gates.in_turn("direct", None, RetryAfter::seconds(2), 1);
        assert!(wait.as_secs() >= 2);
    }

    gates.on_notification(&notification(CLOSES, 1));

    // The room of 15 is taken already.
    assert_eq!(gates.refuse("direct", None).unwrap().seconds, 3);
}

#[tokio::test(start_paused = true)]
async fn jitter_makes_waits_longer_and_never_shorter() {
    let gates = copy_of(with(closed(1), |gate| (gate.depth, gate.jitter) = (365, 0.5))).await;
    // As many as there is room for: all get the same time but for the jitter.
    let waits: BTreeSet<_> = (0..15).map(|_| gates.refuse("direct", None).unwrap().seconds).collect();
    assert!(waits.iter().all(|seconds| (42..=64).contains(seconds)), "{waits:?}");
    assert!(waits.len() > 3, "{waits:?}");
}

#[test]
fn an_open_gate_has_the_room_below_its_mark_and_a_closed_one_has_none() {
    for (depth, room) in [(0, 30), (29, 1), (31, 0)] {
        assert_eq!(with(open(0), |gate| gate.depth = depth).room(), room);
    }
    assert_eq!(with(closed(0), |gate| gate.depth = 3).room(), 0);

    for (messages, seconds) in [(0, 1), (20, 2), (21, 3)] {
        assert_eq!(open(0).seconds_to_drain(messages), Some(seconds));
    }
    let at = |rate| with(open(0), |gate| gate.drain_rate = rate);
    for rate in [None, Some(0.0), Some(-1.0), Some(f64::NAN)] {
        assert_eq!(at(rate).seconds_to_drain(1), None);
    }
    assert_eq!(at(Some(f64::MIN_POSITIVE)).seconds_to_drain(1), Some(999_999_999_999_999));
}
