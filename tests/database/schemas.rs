//! Does `migrate` make the schemas exactly what this version has, whatever is there, and with an owner's rights alone?

use std::process::Stdio;

use sqlx::{Connection, PgConnection};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStderr},
};

use super::private_cluster::Cluster;
use crate::{
    cli::commands::{err, out, run, serve, tidegate},
    support::{TestDatabase, race::Session, sql},
};

/// What `doctor` says of the schemas.
const CHANGES: &str = "select coalesce(string_agg(c.object || ' ' || c.change, ', ' order by c.object), 'none') from tidegate.schema_changes() as c";

pub(super) async fn migrated(url: &str, options: &[&str]) -> String {
    let ran = run(url, &[&["migrate"], options].concat()).await;
    assert!(ran.status.success(), "{}", err(&ran));
    out(&ran)
}

/// A `migrate` that runs, and the lines that it logs.
pub(super) fn migrating(url: &str) -> (Child, Lines<BufReader<ChildStderr>>) {
    let mut command = tidegate(url);
    let command = command.arg("migrate").stdout(Stdio::null()).stderr(Stdio::piped());
    let mut running = command.spawn().unwrap();
    let lines = BufReader::new(running.stderr.take().unwrap()).lines();
    (running, lines)
}

async fn refused(url: &str, options: &[&str]) -> String {
    let ran = run(url, &[&["migrate"], options].concat()).await;
    assert_eq!(ran.status.code(), Some(1), "{}", out(&ran));
    err(&ran)
}

/// Every definition in Tidegate's schemas, without what grows with time: the partitions of days, and branches for queues.
pub(super) async fn catalog(url: &str) -> Vec<String> {
    let mut session = PgConnection::connect(url).await.unwrap();
    let definitions = "
        select 'function ' || p.oid::regprocedure || coalesce((select string_agg(a::text, ' ' order by a::text) from unnest(p.proacl) as a), '')
          || pg_get_functiondef(p.oid)
          || coalesce(obj_description(p.oid, 'pg_proc'), '')
        from pg_proc as p where p.pronamespace in ('tidegate'::regnamespace, 'tidegate_internal'::regnamespace)
        union all
        select 'trigger ' || pg_get_triggerdef(t.oid) || t.tgenabled::text
        from pg_trigger as t join pg_class as c on c.oid = t.tgrelid
        where c.relnamespace = 'tidegate'::regnamespace and not t.tgisinternal
        union all
        select 'relation ' || c.oid::regclass || c.relkind::text
          || coalesce((select string_agg(a::text, ' ' order by a::text) from unnest(c.relacl) as a), '') || coalesce(c.reloptions::text, '')
          || case c.relkind when 'v' then pg_get_viewdef(c.oid) when 'i' then pg_get_indexdef(c.oid) else '' end
        from pg_class as c where c.relnamespace in ('tidegate'::regnamespace, 'tidegate_internal'::regnamespace)
          and c.relname !~ '_20[0-9_]+'
        union all
        select concat_ws(' ', 'column', a.attrelid::regclass, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
          pg_get_expr(d.adbin, d.adrelid), a.attacl, col_description(a.attrelid, a.attnum))
        from pg_attribute as a join pg_class as c on c.oid = a.attrelid
        left join pg_attrdef as d on d.adrelid = c.oid and d.adnum = a.attnum
        where c.relnamespace = 'tidegate'::regnamespace and a.attnum > 0 and not a.attisdropped
          and c.relkind in ('r', 'p', 'v') and c.relname !~ '_20[0-9_]+'
        union all
        select concat_ws(' ', 'constraint', c.conrelid::regclass, c.conname, pg_get_constraintdef(c.oid))
        from pg_constraint as c where c.connamespace = 'tidegate'::regnamespace and c.contype <> 'n' and c.conrelid::regclass::text !~ '_20[0-9_]+'
        order by 1";
    sql::column(&mut session, definitions).await
}

/// What is in one of them only.
pub(super) fn different<'a>(one: &'a [String], other: &'a [String]) -> Vec<&'a str> {
    let only = |these: &'a [String], those: &'a [String]| these.iter().filter(|this| !those.contains(this));
    only(one, other).chain(only(other, one)).map(String::as_str).collect()
}

/// A server with a database of an owner who is no superuser; its URLs for the owner and for the superuser.
struct Plain {
    cluster: Cluster,
    owner: String,
    superuser: String,
}

impl Plain {
    async fn new(rights: &str) -> Self {
        let cluster = Cluster::start().await;
        cluster
            .execute(&[
                &format!("create role plain login {rights}"),
                "create database plain owner plain",
                "alter system set max_prepared_transactions = 4",
            ])
            .await;
        cluster.restart().await;
        let superuser = cluster.url("plain");
        let owner = superuser.replace("tidegate@", "plain@");
        assert_ne!(owner, superuser);
        Self { cluster, owner, superuser }
    }

    async fn as_superuser(&self, sql: &str) {
        let mut session = PgConnection::connect(&self.superuser).await.unwrap();
        sqlx::raw_sql(sql).execute(&mut session).await.unwrap();
    }

    async fn value(&self, sql: &str) -> String {
        sql::value(&mut PgConnection::connect(&self.owner).await.unwrap(), sql).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_without_other_rights_installs_upgrades_and_works() {
    let plain = Plain::new("").await;
    let url = &plain.owner;
    migrated(url, &[]).await;
    for words in [&["init", "--example", "relayer"][..], &["submit", "direct"], &["recover"], &["doctor"]] {
        let ran = run(url, words).await;
        assert!(ran.status.success(), "{words:?}: {}", err(&ran));
    }
    // The group roles could not be made. When a DBA has made them, they get their rights.
    assert_eq!(migrated(url, &[]).await, "the database is up to date\n");
    plain.as_superuser("create role tidegate_api nologin; create role tidegate_reader nologin").await;
    assert!(plain.value(CHANGES).await.contains("role tidegate_api is not of this version"));
    assert!(migrated(url, &["--roles", "existing"]).await.contains("applied functions"));
    assert_eq!(plain.value(CHANGES).await, "none");
    let may = "select has_function_privilege('tidegate_api', 'tidegate.cancel(uuid)', 'execute')::text";
    assert_eq!(plain.value(may).await, "true");

    // As if all of it had been another version's.
    plain.as_superuser("update tidegate.schema_state set fingerprint = ''").await;
    assert!(migrated(url, &[]).await.contains("applied functions"));
    assert_eq!(plain.value(CHANGES).await, "none");
    let superusers = "select count(*)::text from pg_proc as p join pg_roles as r on r.oid = p.proowner
                      where p.pronamespace in ('tidegate'::regnamespace, 'tidegate_internal'::regnamespace) and r.rolsuper";
    assert_eq!(plain.value(superusers).await, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_who_may_make_roles_makes_them_unless_told_not_to() {
    let plain = Plain::new("createrole").await;
    let roles = "select coalesce(string_agg(rolname, ' ' order by rolname), 'none') from pg_roles where rolname like 'tidegate\\_%'";
    migrated(&plain.owner, &["--roles", "existing"]).await;
    assert_eq!(plain.value(roles).await, "none");
    plain.as_superuser("update tidegate.schema_state set fingerprint = ''").await;
    migrated(&plain.owner, &[]).await;
    assert_eq!(plain.value(roles).await, "tidegate_admin tidegate_api tidegate_node tidegate_reader tidegate_worker");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_of_another_owner_is_refused() {
    let plain = Plain::new("").await;
    migrated(&plain.owner, &[]).await;
    let why = refused(&plain.superuser, &[]).await;
    assert!(
        why.contains("schema tidegate belongs to plain, and this is a session of tidegate: migrate as plain"),
        "{why}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_of_pgmq_without_the_right_to_make_queues_is_refused_with_the_grants() {
    let plain = Plain::new("").await;
    migrated(&plain.superuser, &[]).await;
    plain.as_superuser("drop schema tidegate cascade; drop schema tidegate_internal cascade").await;
    let why = refused(&plain.owner, &[]).await;
    assert!(why.contains("schema pgmq belongs to tidegate, and is no extension"), "{why}");
    // As a provider's extension would be.
    plain
        .as_superuser(
            "insert into pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
             select 16000, 'pgmq', n.nspowner, n.oid, false, '1.11.1' from pg_namespace as n where n.nspname = 'pgmq'",
        )
        .await;
    let why = refused(&plain.owner, &[]).await;
    let (_, grants) = why.split_once("as tidegate, ").unwrap_or_else(|| panic!("{why}"));
    plain.as_superuser(grants.lines().next().unwrap()).await;
    migrated(&plain.owner, &[]).await;
    let ran = run(&plain.owner, &["init", "--example", "relayer"]).await;
    assert!(ran.status.success(), "{}", err(&ran));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prepared_transaction_that_keeps_locks_is_named() {
    let plain = Plain::new("").await;
    migrated(&plain.owner, &[]).await;
    plain.as_superuser("update tidegate.schema_state set fingerprint = ''").await;
    let left = "begin; lock table tidegate.request in row exclusive mode; prepare transaction 'forgotten'";
    plain.as_superuser(left).await;
    let (mut migrating, mut lines) = migrating(&plain.owner);
    loop {
        let line = lines.next_line().await.unwrap().expect("it waits");
        if line.contains("waiting for locks") {
            assert!(line.contains("prepared transaction forgotten (tidegate, "), "{line}");
            break;
        }
    }
    plain.as_superuser("rollback prepared 'forgotten'").await;
    assert!(migrating.wait().await.unwrap().success());
    drop(plain.cluster);
}

#[tokio::test(flavor = "multi_thread")]
async fn migrate_says_who_holds_its_lock() {
    let database = TestDatabase::new().await;
    let mut holder = Session::open(&database).await;
    holder.texts("select pg_advisory_lock(1953064037)::text").await;
    let (mut migrating, mut lines) = migrating(&database.url);
    let line = lines.next_line().await.unwrap().expect("it waits");
    let pid = holder.text("select pg_backend_pid()").await;
    assert!(
        line.contains("waiting for the advisory lock of `migrate`") && line.contains(&format!("process {pid} (")),
        "{line}"
    );
    holder.texts("select pg_advisory_unlock(1953064037)::text").await;
    assert!(migrating.wait().await.unwrap().success());
}

/// A restore by another role, or a hand, has left out or changed any of it.
#[tokio::test(flavor = "multi_thread")]
async fn views_that_are_made_from_their_own_definitions_as_a_restore_does_are_unchanged() {
    let database = TestDatabase::new().await;
    database
        .execute(
            "do $$
             declare
               v_view regclass;
             begin
               for v_view in
                 select c.oid from pg_class as c
                 where c.relkind = 'v' and c.relnamespace in ('tidegate'::regnamespace, 'tidegate_internal'::regnamespace)
               loop
                 execute format('create or replace view %s as %s', v_view, pg_get_viewdef(v_view));
               end loop;
             end $$",
        )
        .await;
    assert_eq!(database.text("select string_agg(object, ', ') from tidegate.schema_changes()").await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_or_changed_is_said_and_made_again() {
    let database = TestDatabase::new().await;
    let whole = catalog(&database.url).await;
    for (sql, object, is_missing) in [
        (
            "drop function tidegate.submit(text, jsonb, text, text, text, timestamptz, text, integer, text)",
            "function tidegate.submit(text,jsonb,text,text,text,timestamp with time zone,text,integer,text) is missing",
            true,
        ),
        ("drop view tidegate.gate_history", "view tidegate.gate_history is missing", true),
        (
            "drop trigger policy_budget on tidegate.policy",
            "trigger policy_budget on tidegate.policy is missing",
            true,
        ),
        (
            "drop function tidegate.schema_changes()",
            "function tidegate.schema_changes() is missing",
            true,
        ),
        (
            "alter table tidegate.request disable trigger request_guard",
            "trigger request_guard on tidegate.request was changed",
            false,
        ),
        (
            "create or replace function tidegate.error_class(code text) returns text language sql immutable as $$select 'ours'$$",
            "function tidegate.error_class(text) was changed",
            false,
        ),
        (
            "revoke execute on function tidegate.cancel(uuid) from tidegate_api",
            "function tidegate.cancel(uuid) was changed",
            false,
        ),
        (
            "grant select on tidegate.webhook_secret to tidegate_reader; grant delete on tidegate.dedup to tidegate_api;
             grant execute on function tidegate.claim_tx(text, text, integer, interval, text[]) to tidegate_api",
            "function tidegate.claim_tx(text,text,integer,interval,text[]) was changed, table tidegate.dedup was changed, table tidegate.webhook_secret was changed",
            false,
        ),
        (
            "create function tidegate_internal.of_yesterday() returns integer language sql as 'select 1';
             create view tidegate.of_yesterday as select tidegate_internal.of_yesterday() as day;
             create function tidegate.too(day integer) returns bigint language sql return (select count(*) from tidegate.of_yesterday);
             create trigger request_entered after insert on tidegate.request
               for each row execute function tidegate_internal.request_entry()",
            "function tidegate.too(integer) is not of this version, function tidegate_internal.of_yesterday() is not of this version, \
             trigger request_entered on tidegate.request is not of this version, view tidegate.of_yesterday is not of this version",
            false,
        ),
    ] {
        let (mut node, url) = serve(&database.url, &[]).await;
        let ready = async || reqwest::get(format!("{url}/readyz")).await.unwrap().status().as_u16();
        assert_eq!(ready().await, 200);
        database.execute(sql).await;
        assert_eq!(ready().await, if is_missing { 503 } else { 200 }, "{sql}");
        node.kill().await.unwrap();
        if !object.contains("schema_changes") {
            assert_eq!(database.text(CHANGES).await.as_deref(), Some(object), "{sql}");
            let doctor = run(&database.url, &["doctor"]).await;
            let (code, said) = if is_missing { (1, err(&doctor)) } else { (3, out(&doctor)) };
            assert_eq!(doctor.status.code(), Some(code), "{sql}");
            let first = object.split([' ', ',']).nth(1).unwrap();
            assert!(said.contains(first.split('(').next().unwrap()), "{said}");
        }
        assert!(migrated(&database.url, &[]).await.contains("applied functions"), "{sql}");
        assert_eq!(database.violations().await, [""; 0], "{sql}");
        assert_eq!(different(&catalog(&database.url).await, &whole), [""; 0], "{sql}");
        assert_eq!(migrated(&database.url, &[]).await, "the database is up to date\n");
    }
}

/// Functions and views of an earlier version with other results, arguments or columns, and what needs them.
#[tokio::test(flavor = "multi_thread")]
async fn other_signatures_of_an_earlier_version_are_replaced() {
    let database = TestDatabase::new().await;
    let whole = catalog(&database.url).await;
    for sql in [
        "drop function tidegate.set_callback(uuid, text);
         create function tidegate.set_callback(id uuid, url text) returns text language sql as $$select 'earlier'$$;
         create view tidegate.of_yesterday as select tidegate.set_callback(null, null) as is_set",
        "create function tidegate.set_callback(id uuid) returns boolean language sql as 'select true'",
        "create function tidegate_internal.lock_held(leases tidegate.lease[], early boolean) returns integer language sql as 'select 1'",
        "drop view tidegate.gate_history cascade;
         create view tidegate.gate_history as select 1 as earlier, 'a' as columns, true as than_now;
         create view tidegate.of_yesterday as select earlier from tidegate.gate_history",
        "drop trigger kind_fits_policies on tidegate.kind;
         create constraint trigger kind_fits_policies after update of retention on tidegate.kind
           deferrable initially deferred for each row execute function tidegate_internal.kind_fits_policies()",
        "drop function tidegate_internal.plain_span cascade; create function tidegate_internal.plain_span(p interval, wide text default 'x')
           returns integer language sql as 'select 1'",
    ] {
        database.execute(sql).await;
        assert!(migrated(&database.url, &[]).await.contains("applied functions"), "{sql}");
        assert_eq!(different(&catalog(&database.url).await, &whole), [""; 0], "{sql}");
        assert_eq!(database.violations().await, [""; 0], "{sql}");
    }
}

/// What needs an earlier version's object, and is the application's, is not dropped with it.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_of_the_application_keeps_what_it_needs_and_migrate_says_so() {
    let database = TestDatabase::new().await;
    database
        .execute(
            "create function tidegate.of_yesterday() returns integer language sql as 'select 1';
             create schema app; create view app.report as select tidegate.of_yesterday() as day",
        )
        .await;
    let ran = run(&database.url, &["migrate"]).await;
    assert!(ran.status.success(), "{}", err(&ran));
    assert!(err(&ran).contains("routine tidegate.of_yesterday()"), "{}", err(&ran));
    assert_eq!(database.text("select day from app.report").await.as_deref(), Some("1"));
    assert_eq!(database.text(CHANGES).await.as_deref(), Some("none"));

    database
        .execute("drop view tidegate.gate_history; create view tidegate.gate_history as select 1 as earlier; create view app.gates as select earlier from tidegate.gate_history")
        .await;
    let why = refused(&database.url, &[]).await;
    assert!(why.contains("app.gates depends on view tidegate.gate_history"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_build_is_replaced_only_on_demand() {
    let database = TestDatabase::new().await;
    let later = "update tidegate.schema_state set build = 1000, version = '9.9.9', fingerprint = 'later'";
    database.execute(later).await;
    // A plan is refused as what it plans.
    refused(&database.url, &["--dry-run"]).await;
    let why = refused(&database.url, &[]).await;
    assert!(
        why.contains("nothing was changed: schema tidegate is of build 1000 (by version 9.9.9, on ")
            && why.contains("--downgrade"),
        "{why}"
    );
    assert!(why.contains("build 1000"));
    assert_eq!(database.text("select fingerprint from tidegate.schema_state").await.as_deref(), Some("later"));
    assert!(migrated(&database.url, &["--downgrade"]).await.contains("applied functions"));
    assert_eq!(
        database.text("select build from tidegate.schema_state").await,
        Some(tidegate::internals::schema::build().to_string())
    );
}
