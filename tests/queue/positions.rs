//! Where does a request stand in its queue, and does every way of asking give the same answer?

use proptest::{collection::vec, prelude::*};

use crate::support::{
    TestDatabase,
    property::{Asked, for_all},
    sql::{FLOWS, STATUSES, leases},
};

const NO_ROWS: [&str; 0] = [];

/// Where a request can be in its queue.
#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Fresh,
    CameDue,
    LeaseRanOut,
    Held,
    BackingOff,
    /// The clock stepped back an hour under it.
    HeldBeyondItsLease,
    Missing,
}

impl State {
    /// From when on it is visible, or, under a lease, when that runs out.
    fn at(self) -> &'static str {
        match self {
            Self::Fresh => "'-infinity'",
            Self::CameDue | Self::LeaseRanOut => "clock_timestamp() - interval '1 s'",
            Self::Held => "clock_timestamp() + interval '20 s'",
            Self::BackingOff | Self::Missing => "clock_timestamp() + interval '1000 s'",
            Self::HeldBeyondItsLease => "clock_timestamp() + interval '1 hour'",
        }
    }

    fn leased(self) -> bool {
        matches!(self, Self::LeaseRanOut | Self::Held | Self::HeldBeyondItsLease)
    }

    fn waits(self) -> bool {
        matches!(self, Self::Fresh | Self::CameDue)
    }
}

fn states() -> impl Strategy<Value = Vec<State>> {
    let state = prop_oneof![
        3 => Just(State::Fresh),
        2 => Just(State::CameDue),
        1 => Just(State::LeaseRanOut),
        2 => Just(State::Held),
        2 => Just(State::BackingOff),
        1 => Just(State::HeldBeyondItsLease),
        1 => Just(State::Missing),
    ];
    vec(state, 0..30)
}

/// Submits requests of a kind to `queue` and puts their messages into the states given.
fn fill(database: &Asked, kind: &str, queue: &str, states: &[State]) {
    database
        .run(&format!("select tidegate.submit_batch('{kind}', array_fill('{{}}'::jsonb, array[{}]))", states.len()));
    let list: Vec<_> = states
        .iter()
        .enumerate()
        .map(|(place, state)| {
            let (at, leased) = (state.at(), state.leased());
            let missing = *state == State::Missing;
            format!("({}, ({at})::timestamptz, {leased}, {missing})", place + 1)
        })
        .collect();
    if list.is_empty() {
        return;
    }
    database.run(&format!(
        "with state as (
           select r.id, r.msg_id, s.at, s.leased, s.missing
           from (values {}) as s(place, at, leased, missing)
           join (
             select id, msg_id, row_number() over (order by msg_id) as place from tidegate.request where kind = '{kind}'
           ) as r using (place)
         ), gone as (
           delete from pgmq.q_{queue} as m using state as s where m.msg_id = s.msg_id and (s.missing or s.leased)
         ), claimed as (
           insert into tidegate.claim (token, queue, worker, claimed_at, until, lease_ms, ids)
           select hashtextextended(s.id::text, 0), '{queue}', 'w', clock_timestamp(), s.at, 30000, array[s.id]
           from state as s
           where s.leased
         ), named as (
           update tidegate.request as r
           set lease = hashtextextended(s.id::text, 0)
           from state as s
           where r.id = s.id and s.leased
         )
         update pgmq.q_{queue} as m set vt = s.at from state as s where m.msg_id = s.msg_id and not (s.missing or s.leased)",
        list.join(", ")
    ));
}

#[test]
fn any_mixture_of_messages_has_the_positions_of_a_count_by_hand() {
    let database = Asked::new();
    for_all(40, &(states(), states()), |(ready, tx)| {
        database.run("rollback; begin");
        for (kind, queue, states) in [("public_decrypt", "readiness", &ready), ("direct", "tx", &tx)] {
            fill(&database, kind, queue, states);
            let expected: Vec<String> = states
                .iter()
                .enumerate()
                .map(|(place, state)| match state {
                    State::Missing => String::new(),
                    State::Held => "0".to_owned(),
                    _ => states[..place].iter().filter(|state| state.waits()).count().to_string(),
                })
                .collect();
            let asked = |what: &str, view: &str| {
                database.column(&format!(
                    "select {what} from tidegate.request as r {view} where r.kind = '{kind}' order by r.msg_id"
                ))
            };
            prop_assert_eq!(&asked("tidegate.request_position(r.id)", ""), &expected);
            prop_assert_eq!(&asked("e.position", "join tidegate.request_eta as e using (id)"), &expected);
        }
        prop_assert_eq!(disagreements(&database), NO_ROWS);
        database.run("rollback");
        Ok(())
    });
}

/// Requests that the view of all and the function for one see differently.
fn disagreements(database: &Asked) -> Vec<String> {
    database.column(
        "select format('%s: %s, %s', r.id, v.told, o.told)
         from tidegate.request as r
         left join (
           select e.id, row(e.kind, e.req_status, e.queue, e.position, e.place, e.retry_after_seconds)::text as told
           from tidegate.request_eta as e
         ) as v on v.id = r.id
         cross join lateral (
           select row(o.kind, o.req_status, o.queue, o.queue_position, o.place, o.retry_after_seconds)::text as told,
             o.retry_after_seconds
           from tidegate.request_outlook(r.id) as o
         ) as o
         where v.told is distinct from o.told or o.retry_after_seconds <> tidegate.request_retry_after(r.id)",
    )
}

#[test]
fn the_view_of_all_requests_and_the_answer_for_one_agree_in_every_status() {
    let database = Asked::new();
    // The ETA of a request whose nominal time is over changes with the time.
    database.stop_clock();
    for (flow, kind) in FLOWS {
        for status in STATUSES {
            for (ago, queue) in [("0 s", "null"), ("61 s", "'tx'"), ("1 h", "'readiness'")] {
                database.past_triggers(&format!(
                    "insert into tidegate.request (id, kind, flow, req_status, deadline_at, payload, queue, msg_id,
                       queued_at, processing_at, tx_in_flight_at, receipt_received_at, finished_at)
                     select tidegate_internal.uuid_v7(), '{kind}', '{flow}', '{status}', now(), '{{}}', {queue}, 1, t, t, t, t, t
                     from (select now() - interval '{ago}') as t(t)"
                ));
            }
        }
    }
    for setting in [
        "select",
        "update tidegate.queue set paused = true where name = 'tx'",
        "update tidegate.queue set paused = name = 'readiness'",
        "update tidegate.queue set paused = false; update tidegate.queue set per_seconds = null, max_concurrency = null",
        "update tidegate.queue set per_seconds = 0 where name = 'tx'",
        "update tidegate.setting set min_seconds = 17, max_seconds = 18",
    ] {
        database.run(setting);
        assert_eq!(disagreements(&database), NO_ROWS, "{setting}");
    }
    assert_eq!(
        database.value("select count(*) from tidegate.request_eta where (retry_after_seconds = 0) <> (req_status in ('completed', 'timed_out', 'failure'))"),
        "0"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_changed_at_run_time_change_the_answer_of_those_who_wait() {
    let database = TestDatabase::new().await;
    database.execute("select tidegate.submit_batch('public_decrypt', array_fill('{}'::jsonb, array[101]))").await;
    let last = "(select max(id::text)::uuid from tidegate.request where req_status = 'queued')";
    // p = 100 of C = 50, nothing in tx: 2 s + 4 s + 0.1 s, × 1.2.
    for (change, seconds) in [
        ("select", 8),
        ("update tidegate.queue set max_concurrency = 10 where name = 'readiness'", 17),
        ("update tidegate.queue set max_concurrency = null where name = 'readiness'", 5),
        ("update tidegate.kind set processing_ms = 6000", 8),
        ("update tidegate.kind set tx_confirmation_ms = 1000", 9),
        ("update tidegate.setting set safety_margin = 0", 7),
        ("update tidegate.setting set min_seconds = 40", 40),
        ("update tidegate.setting set max_seconds = 50; select tidegate.pause('tx')", 50),
        ("select tidegate.pause('tx', false); select tidegate.pause('readiness')", 50),
        ("select tidegate.pause(paused => false)", 40),
        ("update tidegate.queue set per_seconds = 0 where name = 'tx'", 50),
        ("update tidegate.queue set per_seconds = 1, max_concurrency = null where name = 'tx'", 40),
    ] {
        database.execute(change).await;
        assert_eq!(database.number(&format!("tidegate.request_retry_after({last})")).await, seconds, "{change}");
        // A newcomer is told by the same settings.
        let told = database
            .value("select id || ' ' || retry_after_seconds from tidegate.submit('public_decrypt', '{}')")
            .await;
        let (id, told) = told.split_once(' ').unwrap();
        assert_eq!(database.value(&format!("select tidegate.request_retry_after('{id}')")).await, told, "{change}");
        database.execute(&format!("select tidegate.cancel('{id}')")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_check_is_told_the_time_of_a_check_and_not_of_the_queue() {
    let database = TestDatabase::new().await;
    let id = database.submit("public_decrypt").await;
    let told =
        format!("select row(place, queue_position, retry_after_seconds)::text from tidegate.request_outlook('{id}')");
    assert_eq!(database.value(&told).await, "(readiness_queue,0,5)");

    database.claim_readiness(1).await;
    assert_eq!(database.value(&told).await, "(checking,0,8)");

    database.run_out("readiness").await;
    assert_eq!(database.value(&told).await, "(readiness_queue,0,5)");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_a_kind_without_nominal_times_has_no_retry_after() {
    let database = TestDatabase::new().await;
    let id = database.submit("direct").await;
    database.execute("update tidegate.kind set processing_ms = null where name = 'direct'").await;
    let told = format!(
        "select concat_ws(' ', place, queue_position, retry_after_seconds) from tidegate.request_outlook('{id}')"
    );
    assert_eq!(database.value(&told).await, "tx_queue 0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_not_to_start_before_its_time_is_not_told_to_come_back_earlier() {
    let database = TestDatabase::new().await;
    for (delay, least, most) in [("100.5 s", 95, 101), ("2.5 s", 3, 3), ("29 days", 300, 300), ("-1 s", 3, 3)] {
        for kind in ["direct", "public_decrypt"] {
            let submit = format!(
                "select id || ' ' || retry_after_seconds
                 from tidegate.submit('{kind}', '{{}}', not_before => clock_timestamp() + interval '{delay}')"
            );
            let told = database.value(&submit).await;
            let (id, told) = told.split_once(' ').unwrap();
            let asked = database.value(&format!("select tidegate.request_retry_after('{id}')")).await;
            let least = if kind == "direct" { least } else { least.max(5) };
            let most = if kind == "direct" { most } else { most.max(6) };
            for seconds in [told, &asked] {
                let seconds: i32 = seconds.parse().unwrap();
                assert!((least..=most).contains(&seconds), "{kind} in {delay}: {seconds}");
            }
            database.execute("select tidegate.cancel(id) from tidegate.request where finished_at is null").await;
        }
    }
    assert_eq!(database.number("(select count(*) from pgmq.q_tx) + (select count(*) from pgmq.q_readiness)").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_request_has_no_place() {
    let database = TestDatabase::new().await;
    assert_eq!(database.column("select id::text from tidegate.request_outlook(gen_random_uuid())").await, NO_ROWS);
    assert_eq!(
        database
            .value("select row(tidegate.request_position(gen_random_uuid()), tidegate.request_retry_after(null))::text")
            .await,
        "(,)"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_that_pass_together_keep_their_order() {
    let database = TestDatabase::unlimited().await;
    let mut ids = Vec::new();
    for _ in 0..40 {
        ids.push(database.submit("public_decrypt").await.to_string());
    }
    // The rows lie in another order than their messages, and a plan may well go by the rows.
    for id in ids.iter().rev() {
        database.execute(&format!("update tidegate.request set submitter = 'ann' where id = '{id}'")).await;
    }
    database.execute("analyze tidegate.request").await;
    let claims = database.claim_readiness(40).await;

    let passed = format!("select tidegate_internal.settle_passed({})", leases(&claims));
    database.execute(&passed).await;

    let order = "select message ->> 'id' from pgmq.q_tx order by msg_id";
    assert_eq!(database.column(order).await, ids);
}
