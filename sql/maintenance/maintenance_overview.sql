-- maintenance_overview: Each maintenance duty: when it last ran, for how long it is overdue, and what it cannot do.
--
-- A duty that never ran counts from the time at which the schema was applied.
--
--   duty: The duty.
--   period: How often it is to run.
--   ran_at: When it last began; null: never.
--   took_ms: How long it took, in milliseconds; null: it never ran.
--   overdue: How long it has been overdue; 0: it is not.
--   error: Why it fails; null: it does not.
--   failing_since: Since when it fails.
--   passed_over: How many requests it passes over, because it can neither end nor delete them.
--   passed_over_request: The first of them; see tidegate.passed_over for all.
--   passed_over_error: What refuses that one.
create or replace view tidegate.maintenance_overview as
select
  m.duty, m.period, nullif(m.ran_at, '-infinity') as ran_at, m.took_ms,
  greatest(
    interval '0',
    tidegate.clock() - coalesce(nullif(m.ran_at, '-infinity'), s.applied_at)
      - greatest(m.period, make_interval(
        secs => coalesce(m.took_ms, 0)::float8 * case m.duty when 'survey_queues' then 50 else 20 end / 1000
      ))
  ) as overdue,
  m.error, m.failing_since, coalesce(p.requests, 0) as passed_over, p.first as passed_over_request,
  p.error as passed_over_error
from tidegate.maintenance as m
left join tidegate.schema_state as s on s.schema = 'tidegate'
left join (
  select
    n.duty, count(*) as requests, (array_agg(n.request_id order by n.since, n.request_id))[1] as first,
    (array_agg(n.error order by n.since, n.request_id))[1] as error
  from tidegate.passed_over as n
  -- One that is not tried again is void: it has ended otherwise.
  where n.retry_at > tidegate.clock() - interval '5 minutes'
  group by n.duty
) as p on p.duty = m.duty;
