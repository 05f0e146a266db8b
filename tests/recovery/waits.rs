//! Does a recovery wait for the leases of a lost fleet, for no other and for no longer than it may; and does one at the
//! start of several nodes repair everything once, before they serve?

use std::process::Output;

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    process::{Child, ChildStderr},
};
use uuid::Uuid;

use super::whole::{FOUND, wreck};
use crate::{
    cli::commands::{err, out, run, serve, tidegate},
    support::{
        TestDatabase, eventually,
        race::sound,
        sql::{Claim, leases},
    },
};

/// A `tidegate recover --wait` that has said for what it waits.
struct Waiting {
    process: Child,
    errors: BufReader<ChildStderr>,
    said: Vec<String>,
}

impl Waiting {
    async fn start(database: &TestDatabase, wait: &str, arguments: &[&str]) -> Self {
        let mut command = tidegate(&database.url);
        command.args(["recover", wait]).args(arguments);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut errors = BufReader::new(process.stderr.take().unwrap());
        let mut said = vec![String::new(), String::new()];
        for line in &mut said {
            errors.read_line(line).await.unwrap();
        }
        Self { process, errors, said }
    }

    /// Its end: everything that it has printed.
    async fn end(mut self) -> Output {
        let mut stderr = self.said.concat().into_bytes();
        self.errors.read_to_end(&mut stderr).await.unwrap();
        let mut output = self.process.wait_with_output().await.unwrap();
        output.stderr = stderr;
        output
    }
}

/// Moves the stopped clock.
async fn pass(database: &TestDatabase, time: &str) {
    database.execute(&format!("update public.test_clock set at = at + interval '{time}'")).await;
}

/// Claims from `tx`, for 30 seconds by the stopped clock.
async fn claim(database: &TestDatabase, worker: &str, requests: i32) -> Vec<Claim> {
    for _ in 0..requests {
        database.submit("direct").await;
    }
    let mut claims = database.claim_tx(requests).await;
    claims.sort_by_key(|claim| claim.msg_id);
    assert_eq!(claims.len(), usize::try_from(requests).unwrap());
    database
        .execute(&format!(
            "update tidegate.claim set worker = '{worker}', lease_ms = 30000, until = tidegate.clock() + interval '30 s'
             where worker = 'tester'"
        ))
        .await;
    claims
}

async fn statuses(database: &TestDatabase, claims: &[Claim]) -> Vec<String> {
    let ids: Vec<Uuid> = claims.iter().map(|claim| claim.id).collect();
    database
        .column(&format!(
            "select r.req_status from unnest(array['{}']::uuid[]) with ordinality as i(id, place)
             join tidegate.request as r on r.id = i.id order by i.place",
            ids.iter().map(Uuid::to_string).collect::<Vec<_>>().join("', '")
        ))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leases_of_a_lost_fleet_are_named_and_waited_for() {
    let database = TestDatabase::unlimited().await;
    database.stop_clock().await;
    let claims = claim(&database, "lost-1", 2).await;

    let mut waiting = Waiting::start(&database, "--wait", &[]).await;

    assert_eq!(
        waiting.said,
        ["waiting for the leases of requests in flight, 30 s at most:\n", "  queue tx, worker lost-1: 2 for 30 s\n"]
    );
    pass(&database, "29 seconds").await;
    let moved = database.value("select clock_timestamp()").await;
    eventually("it reads the leases again", || async {
        database
            .number(&format!(
                "select count(*) from pg_stat_activity
                 where datname = current_database() and query like '%tidegate.leased_request as l%'
                   and query not like '%pg_stat_activity%' and query_start > '{moved}' and state = 'idle'"
            ))
            .await
            > 0
    })
    .await;
    assert!(waiting.process.try_wait().unwrap().is_none());
    assert_eq!(statuses(&database, &claims).await, ["tx_in_flight", "tx_in_flight"]);

    pass(&database, "2 seconds").await;
    let output = waiting.end().await;
    assert_eq!(output.status.code(), Some(3), "{}", err(&output));
    assert!(out(&output).contains("2 lost in flight, reset to processing"), "{}", out(&output));
    assert_eq!(statuses(&database, &claims).await, ["processing", "processing"]);
    let options = "select options ->> 'wait' from tidegate.recovery";
    assert_eq!(database.value(options).await, "true");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_its_worker_extends_or_settles_is_waited_for_no_more() {
    let database = TestDatabase::unlimited().await;
    database.stop_clock().await;
    let claims = claim(&database, "alive", 2).await;
    let waiting = Waiting::start(&database, "--wait", &["--json"]).await;

    // The clock stands still: nothing else ends the wait.
    database
        .execute(&format!(
            "select tidegate.extend({}, '1 hour'); select tidegate_internal.settle_receipt({})",
            leases(&claims[..1]),
            leases(&claims[1..])
        ))
        .await;

    let output = waiting.end().await;
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&summary["reset"], &summary["still_leased"]), (&0.into(), &0.into()));
    assert_eq!(statuses(&database, &claims).await, ["tx_in_flight", "receipt_received"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wait_has_a_limit_and_what_is_lost_by_then_is_recovered() {
    let database = TestDatabase::unlimited().await;
    database.stop_clock().await;
    let held = claim(&database, "slow", 1).await;
    let lost = claim(&database, "lost", 1).await;
    database.execute("update tidegate.claim set until = tidegate.clock() where worker = 'lost'").await;

    let waiting = Waiting::start(&database, "--wait=50ms", &["--json"]).await;
    let output = waiting.end().await;

    assert_eq!(output.status.code(), Some(3), "{}", err(&output));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&summary["reset"], &summary["still_leased"]), (&1.into(), &1.into()));
    assert_eq!(statuses(&database, &lost).await, ["processing"]);
    assert_eq!(statuses(&database, &held).await, ["tx_in_flight"]);
    // Nothing else is wrong, and the exit status says that something is left.
    let again = run(&database.url, &["recover", "--wait=0s"]).await;
    assert_eq!(again.status.code(), Some(3), "{}", err(&again));
    assert!(out(&again).contains("1 still under a lease after the wait, left alone"), "{}", out(&again));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_leases_of_the_kind_are_waited_for_and_without_any_there_is_no_wait() {
    let database = TestDatabase::unlimited().await;
    database.stop_clock().await;
    claim(&database, "alive", 1).await;

    for arguments in [
        &["recover", "--wait", "--kind", "input_proof"][..],
        &["recover", "--wait", "--dry-run", "--kind", "input-proof"],
    ] {
        let output = run(&database.url, arguments).await;
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        assert_eq!(err(&output), "");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn resetting_everything_waits_for_the_leases_that_forbid_it() {
    let database = TestDatabase::unlimited().await;
    database.stop_clock().await;
    let claims = claim(&database, "lost", 1).await;
    let both = run(&database.url, &["recover", "--all", "--wait", "--force"]).await;
    assert_eq!(both.status.code(), Some(2), "a wait is no force");

    // A fleet that goes on keeps its leases.
    let waiting = Waiting::start(&database, "--wait", &["--all"]).await;
    let extend = format!("select tidegate.extend({}, '1 minute')", leases(&claims));
    database.execute(&extend).await;
    let output = waiting.end().await;
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    assert!(err(&output).contains("under live leases"), "{}", err(&output));
    assert_eq!(statuses(&database, &claims).await, ["tx_in_flight"]);

    // Also those of another kind.
    let waiting = Waiting::start(&database, "--wait", &["--all", "--kind", "input_proof"]).await;
    pass(&database, "61 seconds").await;
    let output = waiting.end().await;
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let output = run(&database.url, &["recover", "--all", "--wait"]).await;
    assert_eq!(output.status.code(), Some(3), "{}", err(&output));
    assert_eq!(statuses(&database, &claims).await, ["processing"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_start_at_once_make_each_repair_once_before_they_serve() {
    let database = TestDatabase::unlimited().await;
    wreck(&database).await;

    let options = ["--recover"];
    let (one, two, three) =
        tokio::join!(serve(&database.url, &options), serve(&database.url, &options), serve(&database.url, &options));

    sound(&database).await;
    let figures = database
        .column(
            "select f.key || ' ' || sum(f.value::numeric)
             from tidegate.recovery as r cross join lateral jsonb_each_text(r.figures) as f
             where f.key <> 'gates'
             group by f.key order by f.key",
        )
        .await;
    assert_eq!(figures, FOUND);
    let runs = "select count(*) || ' ' || bool_and(ended_at is not null and (options ->> 'at_start')::boolean)
                from tidegate.recovery";
    assert_eq!(database.value(runs).await, "3 true");
    for (_node, url) in [&one, &two, &three] {
        let ready = reqwest::get(format!("{url}/readyz")).await.unwrap();
        assert_eq!(ready.status(), 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_cannot_recover_does_not_serve() {
    let database = TestDatabase::unlimited().await;
    let joint = if database.url.contains('?') { '&' } else { '?' };
    let url = format!("{}{joint}options[role]=tidegate_api", database.url);

    let refused = run(&url, &["serve", "--listen", "127.0.0.1:0", "--recover"]).await;

    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(out(&refused), "");
    assert!(
        err(&refused).contains("the recovery before serving has failed") && err(&refused).contains("permission denied"),
        "{}",
        err(&refused)
    );
}
