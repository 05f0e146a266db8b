-- invariants_of_history: The invariants of requests and their history.
--
-- As `invariants`.
create or replace function tidegate_internal.invariants_of_history()
  returns table (name text, rule text, subject text, query text) language sql immutable as $$
  values
    ('history_does_not_end_at_the_status',
     'the last step of a request''s history led to the status of its row, by the cause on record there', 'step', $q$
s.flow is not null and s.next_no is null
and (s.transition_no, s.to_status, s.cause) is distinct from (s.row_transition_no, s.row_status, s.row_cause)
     $q$),
    ('history_with_a_gap',
     'each step of a history has the number after the one before, and comes from where that led', 'step',
     $q$s.transition_no <> s.previous_no + 1 or s.from_status is distinct from s.previous_status$q$),
    ('history_with_an_illegal_step', 'each step of a request''s history is one that its flow allows', 'step', $q$
s.flow is not null
and (s.flow, s.from_status is null, coalesce(s.from_status, s.to_status), s.to_status, s.cause) not in (
  select t.flow, t.from_status is null, coalesce(t.from_status, t.to_status), t.to_status, c.cause
  from tidegate.transition_rule as t
  cross join lateral (values (t.cause), ('hand_edit')) as c(cause)
)
     $q$),
    ('history_partition_missing',
     'history has its default partition, and that of today one of its own, if maintenance makes partitions', null, $q$
select p.name as id
from (
  select 'stored_event_' || to_char(statement_timestamp() at time zone 'UTC', 'YYYY_MM_DD') as name
) as p
where to_regclass('tidegate.' || p.name) is null and exists (
  select from tidegate.maintenance as d
  where d.duty = 'make_partitions' and d.ran_at > date_trunc('day', statement_timestamp(), 'UTC')
)
union all
select 'stored_event_default' where to_regclass('tidegate.stored_event_default') is null
     $q$),
    ('history_of_a_lost_request', 'every removed request had ended', 'step',
     $q$s.flow is null and s.next_no is null and s.to_status not in ('completed', 'timed_out', 'failure')$q$),
    ('attempts_counted_wrongly',
     'a row counts as many sends, and checks when they are over, as the last step of its history', 'step', $q$
s.transition_no = s.row_transition_no and case
  when s.to_status = 'queued' then s.row_tx_attempt <> 0
  when s.from_status = 'queued' then s.row_tx_attempt <> 0 or s.row_readiness_attempt <> s.attempt
  else s.row_tx_attempt <> s.attempt
end
     $q$),
    ('history_with_a_miscounted_send',
     'a claim counts one send more than the step before it, a send that was given back one less, another step as many',
     'step', $q$
'queued' not in (s.to_status, coalesce(s.from_status, s.to_status)) and s.cause <> 'hand_edit'
and s.attempt <> s.previous_sends + case s.cause
  when 'claimed' then 1
  when 'released' then -least(s.previous_sends, 1)
  else 0
end
     $q$),
    ('attempts_beyond_the_policy',
     'a live request has no more checks and sends behind it than its policy ever allowed, and one search for a receipt',
     null, $q$
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
from tidegate.request as r
join allowed as a
  on a.kind = r.kind and a.stage = case r.req_status when 'queued' then 'readiness' else 'tx' end::tidegate.stage
where {of r.id} and case r.req_status
  when 'queued' then r.readiness_attempt - r.readiness_waits > a.attempts
  when 'processing' then r.tx_attempt - r.tx_unsent > a.attempts + 1
  when 'tx_in_flight' then r.tx_attempt - r.tx_unsent > a.attempts + 1
end
     $q$);
$$;
