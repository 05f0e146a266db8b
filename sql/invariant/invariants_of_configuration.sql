-- invariants_of_configuration: The invariants of kinds, policies and breakers.
--
-- As `invariants`.
create or replace function tidegate_internal.invariants_of_configuration()
  returns table (name text, rule text, subject text, query text) language sql immutable as $$
  values
    ('request_of_no_kind', 'every request is of a kind', 'request',
     $q$r.kind not in (select k.name from tidegate.kind as k)$q$),
    ('kind_in_a_queue_of_the_wrong_stage', 'a kind''s queues serve the stages it uses them for', 'kind', $q$
(select q.stage from tidegate.queue as q where q.name = k.tx_queue) is distinct from 'tx'
or (select q.stage from tidegate.queue as q where q.name = k.readiness_queue)
  is distinct from case k.flow when 'decrypt' then 'readiness'::tidegate.stage end
     $q$),
    ('kind_missing_from_its_queue', 'a queue names the kinds that use it', 'kind', $q$
exists (
  select from tidegate.queue as q where q.name in (k.tx_queue, k.readiness_queue) and k.name <> all(q.kinds)
)
     $q$),
    ('kind_paused_in_some_queues', 'a queue lists those of its kinds that are paused', null, $q$
select q.name as id
from tidegate.queue as q
where exists (
  select from tidegate.kind as k
  where k.name = any(q.kinds || q.paused_kinds)
    and (k.paused and k.name = any(q.kinds)) <> (k.name = any(q.paused_kinds))
)
     $q$),
    ('kind_without_policy', 'a kind has a policy for each of its stages', null, $q$
select k.name || ' ' || s.stage as id
from tidegate.kind as k
join (values ('readiness'::tidegate.stage), ('tx')) as s(stage) on s.stage = 'tx' or k.flow = 'decrypt'
where not exists (select from tidegate.policy as p where p.kind = k.name and p.stage = s.stage)
     $q$),
    ('policy_not_in_force', 'what holds now is what was declared, stretched or not', null, $q$
select p.kind || ' ' || p.stage as id
from tidegate.policy as p
left join tidegate.policy_in_force as f on f.kind = p.kind and f.stage = p.stage
where (f.attempts, f.semantics, f.retry_on, f.factor, f.respect_retry_after, f.deadline_ms, f.margin_ms)
    is distinct from (p.attempts, p.semantics, p.retry_on, p.factor, p.respect_retry_after, p.deadline_ms, p.margin_ms)
  or f.stretch > p.stretch_max
  or f.timeout_mode <> p.timeout_mode or f.timeout_ms > p.timeout_ms
  or (p.timeout_mode <> 'percentile' and f.timeout_ms <> p.timeout_ms)
  or (f.stretch = 1 and not f.congested and (f.base_ms, f.cap_ms, f.jitter_ms) <> (p.base_ms, p.cap_ms, p.jitter_ms))
     $q$),
    ('policy_over_its_budget', 'W_retry fits the deadline of a policy, and all stages fit that of their kind', 'policy',
     $q$tidegate_internal.policy_refusal(p) is not null or tidegate_internal.kind_refusal(p.kind) is not null$q$),
    ('kind_forgets_before_its_keys',
     'a kind keeps its requests for as long as their idempotency keys stand for them', 'kind',
     $q$k.retention < (select p.dedup_window from tidegate.policy as p where p.kind = k.name and p.stage = 'tx')$q$),
    ('kind_unserved',
     'of a queue that has live workers, one takes the requests of each kind that waits there', null,
     $q$select u.queue || ' ' || u.kind as id from tidegate.unserved as u where u.has_workers$q$),
    ('breaker_does_not_fit_its_policy',
     'a policy that asks for a breaker has one, and others only while their credential is refused', null, $q$
select coalesce(p.kind, b.kind) || ' ' || coalesce(p.stage, b.stage) as id
from tidegate.policy as p
full join tidegate.breaker as b on b.kind = p.kind and b.stage = p.stage
where case when num_nonnulls(p.breaker_error_rate, p.breaker_latency_ms) > 0 then b.kind is null
  else b.state = 'closed' end
     $q$),
    ('breaker_open_for_too_long', 'a breaker stays open no longer than its policy allows', 'breaker', $q$
b.open_until > statement_timestamp() + interval '1 minute' + (
  select p.breaker_open_ms * interval '1 ms' from tidegate.policy as p where p.kind = b.kind and p.stage = b.stage
)
     $q$),
    ('breaker_state_without_its_event',
     'the last change of a breaker that is on record led to the state it is in; one that never changed is closed',
     'breaker', $q$
case b.epoch
  when 0 then b.state <> 'closed'
  else ((b.epoch, b.state) = (
    select e.epoch, e.state from tidegate.breaker_event as e where e.kind = b.kind and e.stage = b.stage
    order by e.id desc limit 1
  )) is not true
end
     $q$),
    ('breaker_probes_wrong',
     'a breaker counts probes and their successes while it is half open, each under a term by which it is lost',
     'breaker', $q$
b.probes < 0 or b.successes < 0
or (b.state <> 'half_open' and (b.probes > 0 or b.successes > 0 or b.probe_until is not null))
or (b.state = 'half_open' and b.probes > 0 and (b.probe_until is null or not isfinite(b.probe_until)))
     $q$);
$$;
