//! Requests of earlier days, with partitions of the history for each day: retention deletes them during the run.

use sqlx::PgConnection;

use super::FLEETING;

/// How many days ago; on the second of them a request is kept that has a long retention.
const DAYS_AGO: [i32; 3] = [5, 4, 3];

/// How many requests of each day are past their retention.
const PAST: u32 = 40;

/// Makes the partition of day $1 and ended requests of that day: $2 of a kind with a short retention, and, if $3, one of
/// a kind with a long one. Returns the day.
const MAKE: &str = "
    create function pg_temp.make_day(p_day timestamptz, p_past integer, p_keeps boolean)
      returns text language plpgsql as $$
    declare
      v_name text := to_char(p_day at time zone 'UTC', 'YYYY_MM_DD');
    begin
      execute format('create table tidegate.%I (like tidegate.stored_event including all)', 'stored_event_' || v_name);
      execute format(
        'alter table tidegate.stored_event attach partition tidegate.%I for values from (%L) to (%L)',
        'stored_event_' || v_name, tidegate.uuid_v7_floor(p_day), tidegate.uuid_v7_floor(p_day + interval '24 hours')
      );
      with made as (
        insert into tidegate.request (
          id, kind, flow, req_status, previous_status, transition_no, cause, submitted_at, processing_at, finished_at,
          deadline_at, payload, error
        )
        select
          tidegate.uuid_v7_floor(m.at), m.kind, 'direct', 'failure', 'processing', 2, 'cancelled', m.at, m.at,
          m.at + interval '1 second', m.at + interval '1 hour', '{}',
          '{\"code\": \"cancelled\", \"message\": \"cancelled by the operator\", \"retryable\": false}'
        from (
          select p_day + n * interval '1 minute' as at, 'KIND' as kind from generate_series(1, p_past) as n
          union all select p_day, 'direct' where p_keeps
        ) as m
        returning id, kind, submitted_at, finished_at
      ), counted as (
        insert into tidegate.request_count_delta (kind, req_status, delta)
        select m.kind, 'failure', count(*) from made as m group by m.kind
      )
      insert into tidegate.stored_event (request_id, transition_no, from_status, to_status, at, attempt, cause)
      select m.id, e.number, e.old::tidegate.request_status, e.new::tidegate.request_status,
        case e.number when 1 then m.submitted_at else m.finished_at end, 0, e.cause
      from made as m
      cross join lateral (
        values (1, null, 'processing', 'submitted'), (2, 'processing', 'failure', 'cancelled')
      ) as e(number, old, new, cause);
      return v_name;
    end;
    $$";

/// Makes them; returns the days.
pub(super) async fn make(session: &mut PgConnection) -> anyhow::Result<Vec<String>> {
    sqlx::raw_sql("set session_replication_role = replica").execute(&mut *session).await?;
    sqlx::raw_sql(&MAKE.replace("KIND", FLEETING)).execute(&mut *session).await?;
    let mut days = Vec::new();
    for ago in DAYS_AGO {
        let day =
            "select pg_temp.make_day(date_trunc('day', clock_timestamp(), 'UTC') - $1 * interval '24 hours', $2, $3)";
        let day = sqlx::query_scalar(day).bind(ago).bind(i32::try_from(PAST)?).bind(ago == DAYS_AGO[1]);
        days.push(day.fetch_one(&mut *session).await?);
    }
    Ok(days)
}
