-- tidegate.invariants_of_configuration: what must hold of kinds, policies, breakers, and of the schema itself
--
-- As `invariants`.
create or replace function tidegate.invariants_of_configuration()
  returns table (name text, says text, query text)
  language sql
  immutable
as $$
  select * from (values
    ('request_of_no_kind',
     'every request is of a kind',
     $q$
select r.id::text as id
from tidegate.request as r
where not exists (select from tidegate.kind as k where k.name = r.kind)
     $q$),
    ('kind_in_a_queue_of_the_wrong_stage',
     'a kind''s queues serve the stages it uses them for',
     $q$
select k.name as id
from tidegate.kind as k
left join tidegate.queue as t on t.name = k.tx_queue
left join tidegate.queue as r on r.name = k.readiness_queue
where t.stage is distinct from 'tx' or (k.flow = 'decrypt') <> (r.stage is not distinct from 'readiness')
     $q$),
    ('kind_without_policy',
     'a kind has a policy for each of its stages',
     $q$
select k.name || ' ' || s.stage as id
from tidegate.kind as k
join (values ('readiness'::tidegate.stage), ('tx')) as s(stage) on s.stage = 'tx' or k.flow = 'decrypt'
where not exists (select from tidegate.policy as p where p.kind = k.name and p.stage = s.stage)
     $q$),
    ('policy_not_in_force',
     'what holds now is what was declared, stretched or not',
     $q$
select p.kind || ' ' || p.stage as id
from tidegate.policy as p
left join tidegate.policy_in_force as f on f.kind = p.kind and f.stage = p.stage
where (f.attempts_declared, f.semantics, f.retry_on, f.factor, f.respect_retry_after, f.deadline_ms)
    is distinct from (p.attempts, p.semantics, p.retry_on, p.factor, p.respect_retry_after, p.deadline_ms)
  or f.attempts > p.attempts or f.stretch > p.stretch_max
  or (f.stretch = 1 and not f.congested and (f.base_ms, f.cap_ms, f.jitter_ms) <> (p.base_ms, p.cap_ms, p.jitter_ms))
     $q$),
    ('policy_over_its_budget',
     'W_retry fits the deadline of a policy, and all stages fit that of their kind',
     $q$
select p.kind || ' ' || p.stage as id
from tidegate.policy as p
where tidegate.policy_refusal(p) is not null or tidegate.kind_refusal(p.kind) is not null
     $q$),
    ('kind_forgets_before_its_keys',
     'a kind keeps its requests for as long as their idempotency keys stand for them',
     $q$
select k.name as id
from tidegate.kind as k
join tidegate.policy as p on p.kind = k.name and p.stage = 'tx'
where k.retention < p.dedup_window
     $q$),
    ('breaker_does_not_fit_its_policy',
     'a policy that asks for a breaker has one, and no other has',
     $q$
select coalesce(p.kind, b.kind) || ' ' || coalesce(p.stage, b.stage) as id
from tidegate.policy as p
full join tidegate.breaker as b on b.kind = p.kind and b.stage = p.stage
where (b.kind is not null) <> (num_nonnulls(p.breaker_error_rate, p.breaker_latency_ms) > 0)
     $q$),
    ('breaker_open_for_too_long',
     'a breaker stays open for no longer than its policy says',
     $q$
select b.kind || ' ' || b.stage as id
from tidegate.breaker as b
join tidegate.policy as p on p.kind = b.kind and p.stage = b.stage
where b.open_until > statement_timestamp() + make_interval(secs => p.breaker_open_ms / 1000.0) + interval '1 minute'
     $q$),
    ('guard_switched_off',
     'the triggers that guard requests and write their history are there and switched on',
     $q$
select g.name as id
from unnest(array[
  'request_guard', 'request_history_of_inserts', 'request_history_of_updates', 'request_removal', 'request_is_never_truncated',
  'webhook_outbox'
]) as g(name)
left join pg_catalog.pg_trigger as t on t.tgrelid = 'tidegate.request'::regclass and t.tgname = g.name
where t.tgenabled is null or t.tgenabled not in ('O', 'A')
     $q$),
    ('index_is_invalid',
     'every index may be used',
     $q$
select i.indexrelid::regclass::text as id
from pg_catalog.pg_index as i
join pg_catalog.pg_class as c on c.oid = i.indexrelid
where c.relnamespace in ('tidegate'::regnamespace, 'pgmq'::regnamespace) and not (i.indisvalid and i.indisready)
     $q$),
    ('single_row_missing',
     'settings, the policy of webhooks and the look round caps have their one row',
     $q$
select s.name as id
from (
  select 'setting' as name, count(*) as number from tidegate.setting
  union all select 'webhook_policy', count(*) from tidegate.webhook_policy
  union all select 'gate_round', count(*) from tidegate.gate_round
) as s
where s.number <> 1
     $q$)
  ) as i(name, says, query);
$$;
