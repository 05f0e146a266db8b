-- tidegate.invariants_of_history: what must hold between requests and their history
--
-- As `invariants`.
create or replace function tidegate.invariants_of_history()
  returns table (name text, says text, query text)
  language sql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
  select * from (values
    ('history_does_not_end_at_the_status',
     'the last step of a request''s history led to the status of its row, by the cause on record there',
     $q$
select r.id::text as id
from {request} as r
where not exists (
  select
  from {step} as e
  where e.request_id = r.id and e.is_latest
    and (e.to_status, e.cause) is not distinct from (r.req_status, r.cause)
)
union all
select e.request_id::text
from {step} as e
where e.is_beyond
group by e.request_id
     $q$),
    ('history_with_a_gap',
     'each step of a history has the number after the one before, and comes from where that led',
     $q$
select s.request_id || ' ' || s.transition_no as id
from (
  select
    e.request_id, e.transition_no, e.from_status,
    lag(e.transition_no, 1, 0) over life as before_no, lag(e.to_status) over life as before
  from {step} as e
  window life as (partition by e.request_id order by e.transition_no)
) as s
where s.transition_no <> s.before_no + 1 or s.from_status is distinct from s.before
     $q$),
    ('history_with_an_illegal_step',
     'each step of a request''s history is one that its flow allows',
     $q$
with step as materialized (
  select e.row_flow as flow, e.from_status, e.to_status, e.cause
  from {step} as e
  where e.row_flow is not null
  group by e.row_flow, e.from_status, e.to_status, e.cause
), illegal as materialized (
  select s.*
  from step as s
  where not exists (
    select
    from tidegate.transition_rule as t
    where t.flow = s.flow and t.from_status is not distinct from s.from_status and t.to_status = s.to_status
      and s.cause in (t.cause, 'hand_edit')
  )
)
select e.request_id || ' ' || e.transition_no as id
from illegal as i
cross join lateral (
  select v.request_id, v.transition_no
  from {step} as v
  where v.row_flow = i.flow and v.from_status is not distinct from i.from_status and v.to_status = i.to_status
    and v.cause = i.cause
) as e
     $q$),
    ('history_partition_missing',
     'history has its default partition, and that of today one of its own, if anybody makes partitions',
     $q$
select p.name as id
from (
  select 'request_event_' || to_char(statement_timestamp() at time zone 'UTC', 'YYYY_MM_DD') as name
) as p
where to_regclass('tidegate.' || p.name) is null and exists (
  select from tidegate.maintenance as d
  where d.duty = 'make_partitions' and d.ran_at > date_trunc('day', statement_timestamp(), 'UTC')
)
union all
select 'request_event_default' where to_regclass('tidegate.request_event_default') is null
     $q$),
    ('history_of_a_lost_request',
     'no live request has gone: what is removed has ended',
     $q$
select e.request_id::text as id
from {step} as e
where e.row_flow is null
group by e.request_id
having not bool_or(e.to_status in ('completed', 'timed_out', 'failure'))
     $q$),
    ('attempts_counted_wrongly',
     'a row counts the sends, and the checks when they are over, that the last step of its history tells',
     $q$
select e.request_id::text as id
from {step} as e
where e.is_latest and case
  when e.to_status = 'queued' then e.row_tx_attempt <> 0
  when e.from_status = 'queued' then e.row_tx_attempt <> 0 or e.row_readiness_attempt <> e.attempt
  else e.row_tx_attempt <> e.attempt
end
     $q$),
    ('attempts_beyond_the_policy',
     'a live request has no more checks and sends behind it than its policy ever allowed, and one look for a receipt',
     $q$
with allowed as materialized (
  select
    p.kind, p.stage,
    greatest(p.attempts, (
      select max((c.in_force ->> 'attempts')::integer)
      from tidegate.policy_change as c
      where c.kind = p.kind and c.stage = p.stage
    )) as attempts
  from tidegate.policy as p
)
select r.id::text as id
from {request} as r
join allowed as a
  on a.kind = r.kind and a.stage = case r.req_status when 'queued' then 'readiness' else 'tx' end::tidegate.stage
where case r.req_status
  when 'queued' then r.readiness_attempt - r.readiness_waits > a.attempts
  when 'processing' then r.tx_attempt - r.tx_unsent > a.attempts + 1
  when 'tx_in_flight' then r.tx_attempt - r.tx_unsent > a.attempts + 1
end
     $q$)
  ) as i(name, says, query);
$$;
