//! Is every function sound? `migrate` applies them in any order, and so does not look into their bodies.

use crate::support::TestDatabase;

/// What the validators of PL/pgSQL and SQL say of each function's body; nothing of those that are valid.
const SAID: &str = "
    create function pg_temp.said(p_function regprocedure) returns text language plpgsql as $$
    begin
      if (select l.lanname = 'plpgsql' from pg_proc as p join pg_language as l on l.oid = p.prolang where p.oid = p_function) then
        perform plpgsql_validator(p_function);
      else
        perform fmgr_sql_validator(p_function);
      end if;
      return null;
    exception when others then
      return p_function || ': ' || sqlerrm;
    end;
    $$";

#[tokio::test(flavor = "multi_thread")]
async fn every_body_is_valid() {
    let database = TestDatabase::uninitialised().await;
    let mut session = database.session().await;
    sqlx::raw_sql(SAID).execute(&mut session).await.unwrap();
    sqlx::raw_sql(
        "set check_function_bodies = off;
         create function tidegate.is_wrong() returns integer language plpgsql as $$ begin return 1 +; end $$;
         create function tidegate.is_wrong_too() returns integer language sql as $$ select there_is_no_such() $$;
         set check_function_bodies = on",
    )
    .execute(&mut session)
    .await
    .unwrap();

    let said: Vec<String> = sqlx::query_scalar(
        "select s.said
         from pg_proc as p
         cross join lateral pg_temp.said(p.oid) as s(said)
         where p.pronamespace in ('tidegate'::regnamespace, 'tidegate_internal'::regnamespace) and s.said is not null
         order by 1",
    )
    .fetch_all(&mut session)
    .await
    .unwrap();
    let [wrong, wrong_too] = &said[..] else {
        panic!("{said:#?}");
    };
    assert!(wrong.contains("is_wrong(): syntax error"), "{wrong}");
    assert!(wrong_too.contains("is_wrong_too(): "), "{wrong_too}");
}

/// A function whose body is a text finds only qualified objects; other bodies were read once, by `migrate`. Internal
/// functions that are no triggers run below these.
#[tokio::test(flavor = "multi_thread")]
async fn every_function_with_a_text_as_its_body_that_sessions_reach_has_a_search_path() {
    let database = TestDatabase::uninitialised().await;
    // Functions with a branch for each queue are made again for a new queue.
    database.execute("insert into tidegate.queue (name, stage) values ('orders', 'tx')").await;

    let (all, without): (i64, Vec<String>) = sqlx::query_as(
        "select count(*), coalesce(array_agg(s.name) filter (where s.is_reached and not s.is_set), '{}')
         from (
           select p.oid::regprocedure::text as name,
             coalesce('search_path=pg_catalog, pg_temp' = any(p.proconfig), false) as is_set,
             p.prosecdef or p.prorettype = 'trigger'::regtype or p.pronamespace = 'tidegate'::regnamespace
               or exists (
                 select from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) as a
                 where a.grantee <> p.proowner
               ) as is_reached
           from pg_proc as p
           where p.pronamespace in ('tidegate'::regnamespace, 'tidegate_internal'::regnamespace)
             and p.prosqlbody is null and p.prokind = 'f'
         ) as s",
    )
    .fetch_one(&database.pool)
    .await
    .unwrap();

    assert!(without.is_empty(), "{without:?}");
    assert!(all > 200, "{all}");
}
