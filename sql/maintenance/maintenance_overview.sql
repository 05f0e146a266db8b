-- maintenance_overview: Each maintenance duty, when it last ran, and for how long it has been overdue.
--
-- A duty that never ran counts from the time at which the schema was applied.
--
--   duty: The duty.
--   period: How often it is to run.
--   ran_at: When it last began; null: never.
--   took_ms: How long it took, in milliseconds; null: it never ran.
--   overdue: How long it has been overdue; 0: it is not.
create or replace view tidegate.maintenance_overview as
select
  m.duty, m.period, nullif(m.ran_at, '-infinity') as ran_at, m.took_ms,
  greatest(
    interval '0',
    tidegate.clock() - coalesce(nullif(m.ran_at, '-infinity'), s.applied_at)
      - greatest(m.period, make_interval(
        secs => coalesce(m.took_ms, 0)::float8 * case m.duty when 'survey_queues' then 50 else 20 end / 1000
      ))
  ) as overdue
from tidegate.maintenance as m
left join tidegate.schema_state as s on s.schema = 'tidegate';
