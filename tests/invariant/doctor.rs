//! Does `doctor` find whatever is wrong by its name, and nothing where nothing is?

mod command;
mod false_alarms;
mod seeds;
mod warnings;

use std::process::{Output, Stdio};

use self::seeds::SEEDS;
use crate::{
    cli::commands::tidegate,
    support::{
        TestDatabase,
        race::{NOTHING, Session, a_bit_of_everything, receipt},
        until_blocked,
    },
};

const VIOLATIONS: &str = "select name from tidegate.invariant_violation order by name";

/// A database with a request in every situation, all of it as it should be, and a while old.
pub(super) async fn lived_in() -> (TestDatabase, Session) {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "select tidegate.make_partitions();
             update tidegate.policy set breaker_error_rate = 0.5 where kind = 'direct';
             select tidegate.quota_set(kind => 'input_proof', high_water => 1000);
             select tidegate.queue_add('fair', 'tx', fair_by => 'submitter');
             select tidegate.kind_add('fair', 'direct', tx_queue => 'fair');
             select tidegate.submit_group('fair', array['1', '2', '3']::jsonb[], submitters => array['a', 'b', 'a'])",
        )
        .await;
    receipt(&database, "direct", Some("awaited")).await;
    let shares = receipt(&database, "user_decrypt", Some("shares")).await;
    for part in ["a", "b"] {
        database.execute(&format!("select tidegate.respond('1', id => '{shares}', part => '{part}')")).await;
    }
    for (kind, status) in [
        ("direct", "completed"),
        ("direct", "failure"),
        ("input_proof", "completed"),
        ("public_decrypt", "timed_out"),
        ("public_decrypt", "completed"),
    ] {
        database.request_in(kind, status).await;
    }
    database.execute("select tidegate.submit('direct', '{}', idempotency_key => 'key')").await;
    let session = a_bit_of_everything(&database).await;
    // Every duty is done, and as long ago as a slow test takes.
    for sql in [
        "update tidegate.maintenance set ran_at = ran_at - interval '1 day'",
        "call tidegate.maintain()",
        "update tidegate.maintenance set ran_at = ran_at - interval '2 minutes' where duty = 'rescan_queues'",
    ] {
        database.execute(sql).await;
    }
    (database, session)
}

/// What is found in slices of a tenth of a second, of what can be looked for in slices.
const VIOLATIONS_BY_SLICE: &str = "
    with recursive slice as (
      select s.id_from, null::uuid as id_before from tidegate.invariant_slice(null, '100 ms') as s
      union all
      select n.id_from, s.id_from from slice as s cross join lateral tidegate.invariant_slice(s.id_from, '100 ms') as n
      where s.id_from is not null
    )
    select v.name, sum(v.violations)
    from slice as s
    cross join lateral tidegate.check_invariants(
      array(select i.name from tidegate.invariant as i where i.by_request and i.name = any('{$found}')), s.id_from, s.id_before
    ) as v
    group by v.name
    order by v.name";

#[tokio::test(flavor = "multi_thread")]
async fn a_slice_is_read_once_for_all_invariants() {
    let (_database, mut session) = lived_in().await;
    let mut reads = Vec::new();
    for names in ["array['history_with_a_gap']", "null"] {
        let checks = format!(
            "select name from tidegate.check_invariants(
               array(select name from tidegate.invariant where by_request and name = any(coalesce({names}, array[name]))),
               id_before => 'ffffffff-ffff-ffff-ffff-ffffffffffff')"
        );
        let read = session.reads("stored_event_.*", &checks).await;
        reads.push(read.scans + read.index_scans);
    }
    // What has been submitted again is looked up, too.
    assert!(reads[0] > 0 && reads[1] <= 2 * reads[0], "{reads:?}");
}

/// Does SQL past every trigger, looks, and undoes it, in sequences too; what can be looked for in slices is found in
/// slices, too.
async fn found_after(session: &mut Session, sql: &str) -> Vec<String> {
    let as_before = session
        .texts(
            "select format('select setval(%L, %s, %L)', 'tidegate.' || quote_ident(sequencename), coalesce(last_value, start_value),
               last_value is not null)
             from pg_sequences where schemaname = 'tidegate'",
        )
        .await;
    session.execute("begin").await;
    session.execute("set local session_replication_role = replica").await;
    session.execute(sql).await;
    let whole = "select v.name || ' ' || v.violations || case when i.by_request then ' by request' else '' end
                 from tidegate.invariant_violation as v join tidegate.invariant as i on i.name = v.name order by v.name";
    let whole = session.texts(whole).await;
    let found: Vec<_> = (whole.iter()).map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    let by_request: Vec<_> = (whole.iter()).filter_map(|line| line.strip_suffix(" by request")).collect();
    if !by_request.is_empty() {
        let sliced = VIOLATIONS_BY_SLICE.replace("$found", &found.join(","));
        assert_eq!(session.texts(&sliced).await, by_request, "{sql}");
    }
    session.execute("rollback").await;
    session.execute(&as_before.join(";")).await;
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn every_inconsistency_is_found_by_its_name_and_nothing_else_is() {
    let (database, _) = lived_in().await;
    // Some of it only a superuser can do.
    let mut session = Session::open_as_superuser(&database).await;
    assert_eq!(session.texts(VIOLATIONS).await, NOTHING);

    let mut wrong = Vec::new();
    for (name, sql, besides) in SEEDS.into_iter().flatten() {
        let found = found_after(&mut session, sql).await;
        let mut expected = [&[*name], *besides].concat();
        expected.sort_unstable();
        if found != expected {
            wrong.push(format!("{sql}: found {found:?}, expected {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");

    let names = session.texts("select name from tidegate.invariant").await;
    for name in names {
        assert!(SEEDS.into_iter().flatten().any(|(seed, ..)| *seed == name), "nothing seeds {name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_query_shows_what_was_counted_and_sampled() {
    let (database, mut session) = lived_in().await;
    database.past_triggers("delete from pgmq.q_readiness").await;

    let (query, expected) = {
        let found = session
            .text("select violations || ' ' || samples[1] || ' ' || query from tidegate.invariant_violation")
            .await;
        let (expected, query) = found.split_at(found.find(" select").unwrap());
        (query.to_owned(), expected.to_owned())
    };
    let shown = session.text(&format!("select count(*), min(id) from ({query}) as v")).await;
    assert_eq!(shown, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_trigger_and_every_duty_is_on_the_doctors_lists() {
    let (_database, mut session) = lived_in().await;

    for forgotten in [
        "select format('trigger %I on tidegate.%I', t.tgname, c.relname)
         from pg_trigger as t join pg_class as c on c.oid = t.tgrelid
         where c.relnamespace = 'tidegate'::regnamespace and not t.tgisinternal and t.tgparentid = 0
         except
         select jsonb_object_keys(s.objects) from tidegate.schema_state as s where s.schema = 'tidegate'",
        "select d.duty
         from tidegate.maintenance as d
         join tidegate.invariant as i on i.name = 'duty_missing' and strpos(i.query, quote_literal(d.duty)) = 0",
    ] {
        assert_eq!(session.texts(forgotten).await, NOTHING, "{forgotten}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_that_fails_counts_as_a_violation() {
    let (_database, mut session) = lived_in().await;
    session.execute("begin; alter table tidegate.queue_survey rename to renamed").await;

    let said = session.texts("select name || ': ' || samples[1] from tidegate.invariant_violation order by name").await;

    assert_eq!(said.len(), 2, "{said:?}");
    // The table's own absence is a finding, too.
    assert_eq!(said[0], "schema_changed: table tidegate.queue_survey is missing");
    assert!(said[1].starts_with("survey_does_not_add_up: it could not be checked: relation"), "{said:?}");
}

/// Interrupts a doctor that waits for a lock on a table: it has examined the invariants of queues, and no request.
pub(super) async fn interrupted(database: &TestDatabase, arguments: &[&str]) -> Output {
    let mut holder = Session::begin(database).await;
    holder.execute("lock table tidegate.redrive in access exclusive mode").await;
    let doctor = tidegate(&database.url).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until_blocked(database, 1).await;
    let pid = nix::unistd::Pid::from_raw(i32::try_from(doctor.id().unwrap()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let output = doctor.wait_with_output().await.unwrap();
    holder.rollback().await;
    output
}
