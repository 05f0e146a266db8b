//! Does `migrate_with` keep the tables, functions and checks of a program as it keeps Tidegate's own?

use sha2::{Digest, Sha256};
use tidegate::{Error, MigrateError, Migrations, Tidegate};

use crate::{
    cli::commands::{out, run},
    support::TestDatabase,
};

const ENTRIES: &str = "
-- table entry: What was booked.
--   cents: The amount.
create table ledger.entry (id integer primary key, cents bigint not null)";

const NO_DEBT: &str = "-- No entry
-- is negative.
select e.id::text as id from ledger.entry as e where e.cents < 0";

fn ledger() -> Migrations {
    Migrations::new("ledger")
        .file("V2__one_entry", "insert into ledger.entry values (1, 10)")
        .file("V1__entries", ENTRIES)
        .check("negative_entry", NO_DEBT)
}

/// With a function that answers with `total`.
fn with_total(total: &'static str) -> Migrations {
    ledger().function("total", total)
}

const SUM: &str = "-- total: The sum of all entries.
create or replace function ledger.total() returns bigint language sql stable as
$$select sum(cents)::bigint from ledger.entry$$";

async fn empty() -> (TestDatabase, Tidegate) {
    let database = TestDatabase::empty().await;
    let tidegate = Tidegate::connect(&database.url).await.unwrap();
    (database, tidegate)
}

fn refusal(migrated: Result<(), Error>) -> MigrateError {
    match migrated {
        Err(Error::Migrate(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_migration_is_applied_once_in_the_order_of_its_version_with_its_comments() {
    let (database, tidegate) = empty().await;
    for _ in 0..2 {
        tidegate.migrate_with(&[with_total(SUM)]).await.unwrap();
    }
    for (question, answer) in [
        ("select ledger.total()", "10"),
        ("select string_agg(name, ' ' order by version) from ledger.refinery_schema_history", "entries one_entry"),
        ("obj_description('ledger.entry'::regclass, 'pg_class')", "What was booked."),
        ("col_description('ledger.entry'::regclass, 2)", "The amount."),
        ("obj_description('ledger.total'::regproc, 'pg_proc')", "The sum of all entries."),
        ("select string_agg(schema, ' ' order by schema) from tidegate.schema_state", "ledger tidegate"),
    ] {
        assert_eq!(database.text(question).await.as_deref(), Some(answer), "{question}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_that_migrate_at_once_both_succeed() {
    let (database, tidegate) = empty().await;
    let other = Tidegate::connect(&database.url).await.unwrap();
    let sets = [with_total(SUM)];
    let (one, two) = tokio::join!(tidegate.migrate_with(&sets), other.migrate_with(&sets));
    one.unwrap();
    two.unwrap();
    assert_eq!(database.number("select ledger.total()").await, 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_that_fails_keeps_nothing_and_is_tried_again() {
    let (database, tidegate) = empty().await;
    let three = |sql| with_total(SUM).file("V3__more", sql);
    let refused =
        refusal(tidegate.migrate_with(&[three("insert into ledger.entry values (2, 20); select 1 / 0")]).await);
    let MigrateError::Migration { schema: "ledger", name, .. } = &refused else { panic!("{refused}") };
    assert_eq!(name, "V3__more");
    assert_eq!(database.number("select count(*) from ledger.entry").await, 1);
    assert_eq!(database.number("select count(*) from ledger.refinery_schema_history").await, 2);

    tidegate.migrate_with(&[three("insert into ledger.entry values (2, 20)")]).await.unwrap();
    assert_eq!(database.number("select ledger.total()").await, 30);
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_are_applied_again_when_they_change_and_only_then() {
    let (database, tidegate) = empty().await;
    tidegate.migrate_with(&[with_total(SUM)]).await.unwrap();
    let applied = "select applied_at from tidegate.schema_state where schema = 'ledger'";
    let first = database.text(applied).await;
    tidegate.migrate_with(&[with_total(SUM)]).await.unwrap();
    assert_eq!(database.text(applied).await, first);
    // One that was changed by hand is not what was applied.
    let by_hand = "create or replace function ledger.total() returns bigint language sql return -1";
    database.execute(by_hand).await;
    tidegate.migrate_with(&[with_total(SUM)]).await.unwrap();
    assert_eq!(database.number("select ledger.total()").await, 10);

    let changed = "create or replace function ledger.total() returns bigint language sql return 7";
    tidegate.migrate_with(&[with_total(changed)]).await.unwrap();
    assert_eq!(database.number("select ledger.total()").await, 7);

    let wrong = with_total(SUM).function("broken", "create function ledger.broken()");
    let refused = refusal(tidegate.migrate_with(&[wrong]).await);
    assert!(matches!(refused, MigrateError::Sql { schema: "ledger", file: "broken", .. }), "{refused}");
    assert_eq!(database.number("select ledger.total()").await, 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_with_another_text_or_a_later_migration_is_refused_before_anything_changes() {
    for (another, wanted) in [
        ("update ledger.refinery_schema_history set checksum = 'of another text' where version = 2", 2),
        ("insert into ledger.refinery_schema_history values (9, 'later', '2026-11-01T00:00:00Z', '1')", 9),
    ] {
        let (database, tidegate) = empty().await;
        tidegate.migrate_with(&[ledger()]).await.unwrap();
        database.execute(another).await;
        database.execute("update tidegate.schema_state set fingerprint = 'old'").await;

        let refused = refusal(tidegate.migrate_with(&[with_total(SUM)]).await);

        let MigrateError::History { schema: "ledger", version, .. } = refused else {
            panic!("{refused}");
        };
        assert_eq!(version, wanted);
        assert_eq!(database.number("select count(*) from tidegate.schema_state where fingerprint = 'old'").await, 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_below_one_that_was_applied_or_with_its_number_is_refused() {
    let (database, tidegate) = empty().await;
    tidegate.migrate_with(&[ledger()]).await.unwrap();
    let history = "select string_agg(version || name, ' ' order by version) from ledger.refinery_schema_history";
    for (name, why) in [
        ("V0__before", "migration V0__before of schema ledger is new, and the database has later ones"),
        ("V2__another", "the migrations V2__one_entry and V2__another of schema ledger have one number"),
    ] {
        let refused = refusal(tidegate.migrate_with(&[ledger().file(name, "select 1")]).await).to_string();
        assert!(refused.contains(why), "{refused}");
        assert_eq!(database.text(history).await.as_deref(), Some("1entries 2one_entry"));
    }
}

/// The history as versions before refinery kept it.
const BEFORE_REFINERY: &str = "
    create table ledger.schema_history (
      version integer primary key, name text not null, applied_on timestamptz not null, checksum text not null
    );
    insert into ledger.schema_history
    select h.version, format('V%s__%s', h.version, h.name), h.applied_on::timestamptz, 'CHECKSUM'
    from ledger.refinery_schema_history as h
    where h.version = 1;
    drop table ledger.refinery_schema_history";

#[tokio::test(flavor = "multi_thread")]
async fn a_history_from_before_refinery_is_taken_over_if_its_texts_are_the_same() {
    let first = || Migrations::new("ledger").file("V1__entries", ENTRIES);
    for (checksum, is_same) in [(format!("{:x}", Sha256::digest(ENTRIES)), true), ("another".to_owned(), false)] {
        let (database, tidegate) = empty().await;
        tidegate.migrate_with(&[first()]).await.unwrap();
        let history =
            "select string_agg(version || name || checksum, ' ' order by version) || min(applied_on)::timestamptz
                       from ledger.refinery_schema_history where version = 1";
        let kept = database.text(history).await;
        database.execute(&BEFORE_REFINERY.replace("CHECKSUM", &checksum)).await;

        let migrated = tidegate.migrate_with(&[ledger()]).await;

        let earlier = "select to_regclass('ledger.schema_history') is null";
        if is_same {
            migrated.unwrap();
            assert_eq!(database.text(history).await, kept);
            assert_eq!(database.text(earlier).await.as_deref(), Some("true"));
            assert_eq!(database.number("select count(*) from ledger.entry").await, 1, "the second was applied");
        } else {
            let refused = refusal(migrated);
            assert!(matches!(refused, MigrateError::History { schema: "ledger", version: 1, .. }), "{refused}");
            assert_eq!(database.text(earlier).await.as_deref(), Some("false"));
            assert_eq!(database.number("select count(*) from ledger.entry").await, 0);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_named_as_the_earlier_history_is_left_alone() {
    let (database, tidegate) = empty().await;
    let own = "create table ledger.schema_history as
               select 1 as version, 'own' as name, now() as applied_on, 'own' as checksum";
    let set = ledger().file("V3__own", own);
    for _ in 0..2 {
        tidegate.migrate_with(std::slice::from_ref(&set)).await.unwrap();
        assert_eq!(database.text("select name from ledger.schema_history").await.as_deref(), Some("own"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_or_a_migration_that_cannot_be_named_is_refused() {
    let (database, tidegate) = empty().await;
    for set in [
        Migrations::new("tidegate"),
        Migrations::new("tidegate_internal"),
        Migrations::new("pg_ledger"),
        Migrations::new("Ledger"),
        Migrations::new("ledger; drop schema ledger"),
        Migrations::new("1st"),
        Migrations::new(""),
        Migrations::new("ledger").file("entries", ENTRIES),
        Migrations::new("ledger").file("Vone__entries", ENTRIES),
    ] {
        let refused = refusal(tidegate.migrate_with(&[set]).await);
        assert!(matches!(refused, MigrateError::Unfit(_)), "{refused}");
    }
    assert_eq!(database.number("select count(*) from pg_namespace where nspname = 'tidegate'").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_shows_what_breaks_a_check_of_a_program() {
    let (database, tidegate) = empty().await;
    tidegate.migrate_with(&[ledger()]).await.unwrap();
    let sound = run(&database.url, &["doctor"]).await;
    assert!(sound.status.success(), "{}", out(&sound));

    database.execute("insert into ledger.entry values (2, -20), (3, -30)").await;
    let unsound = run(&database.url, &["doctor"]).await;
    assert_eq!(unsound.status.code(), Some(3));
    for line in ["ledger.negative_entry: 2", "rule: No entry is negative.", "violated by: 2, 3"] {
        assert!(out(&unsound).contains(line), "{line}: {}", out(&unsound));
    }

    // A check that is gone from the program is gone from the database, as is a schema that was dropped.
    tidegate
        .migrate_with(&[Migrations::new("ledger")
            .file("V1__entries", ENTRIES)
            .file("V2__one_entry", "insert into ledger.entry values (1, 10)")])
        .await
        .unwrap();
    assert!(run(&database.url, &["doctor"]).await.status.success());
    tidegate.migrate_with(&[ledger()]).await.unwrap();
    database.execute("drop schema ledger cascade").await;
    assert!(run(&database.url, &["doctor"]).await.status.success());
    tidegate.migrate_with(&[with_total(SUM)]).await.unwrap();
    assert_eq!(database.number("select ledger.total()").await, 10);
}
