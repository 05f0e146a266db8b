-- explain_waiting: `explain` for a request that is in a queue, or should be.
--
-- One snapshot, but for limits that are counted in sequences.
create or replace function tidegate_internal.explain_waiting(p_request tidegate.request, p_now timestamptz)
  returns table (reason text, sentence text, figures jsonb) language plpgsql stable as $$
declare
  v_stage    constant tidegate.stage := (case p_request.req_status when 'queued' then 'readiness' else 'tx' end);
  v_call     constant text := case v_stage when 'readiness' then 'check' else 'send' end;
  v_attempt  constant integer := case v_stage when 'readiness' then p_request.readiness_attempt
    else p_request.tx_attempt end;
  -- Those that used no attempt of the policy.
  v_free     constant integer := case v_stage when 'readiness' then p_request.readiness_waits
    else p_request.tx_unsent end;
  v_deadline constant timestamptz := least(p_request.deadline_at,
    case when p_request.req_status = 'queued' then p_request.readiness_deadline_at end);
  v_error    constant text := concat_ws(': ', p_request.error ->> 'code', p_request.error ->> 'message');
  v_queue    tidegate.queue;
  v_visible  timestamptz;
  v_lease    record;
  v_policy   tidegate.policy_in_force;
  v_breaker  record;
  v_position bigint;
  v_held     bigint;
  v_slots    record;
  v_per_s    numeric;
  v_snoozed  boolean;
  v_turn     record;
begin
  select * into v_queue from tidegate.queue as q where q.name = p_request.queue and q.stage = v_stage;
  if found and to_regclass(tidegate_internal.queue_table(v_queue.name)) is not null then
    execute format(
      'select m.vt from %s as m where m.msg_id = $1 and tidegate.message_request_id(m.message) = $2',
      tidegate_internal.queue_table(v_queue.name)
    ) into v_visible using p_request.msg_id, p_request.id;
  end if;
  select c.worker, c.until, tidegate.is_held(c.until, c.lease_ms, p_now) as held into v_lease
  from tidegate.claim as c
  where c.token = p_request.lease and p_request.id = any(c.ids);
  return query
    select r.reason, r.sentence, jsonb_strip_nulls(r.figures)
    from (values
      (
        'overdue', v_deadline <= p_now,
        format('overdue: its deadline passed at %s, and the next sweep ends it',
          tidegate_internal.plain_time(v_deadline)),
        jsonb_build_object('deadline_at', v_deadline)
      ),
      (
        'no_message', v_visible is null and v_lease.held is null,
        format('it is %s, and has no message in %s: `tidegate recover` makes it again', p_request.req_status,
          coalesce('queue ' || p_request.queue, 'any queue')),
        jsonb_build_object('queue', p_request.queue, 'msg_id', p_request.msg_id)
      ),
      (
        'held', v_lease.held,
        format('held by %s for its %s (attempt %s), under a lease until %s', coalesce(v_lease.worker, 'a worker'),
          v_call, v_attempt, tidegate_internal.plain_time(v_lease.until)),
        jsonb_build_object('worker', v_lease.worker, 'until', v_lease.until, 'attempt', v_attempt, 'queue',
          v_queue.name)
      ),
      (
        'cancelling', p_request.req_status = 'tx_in_flight' and p_request.cancel_requested_at is not null,
        format('its cancel was requested at %s: unless this send succeeds, it ends as cancelled',
          tidegate_internal.plain_time(p_request.cancel_requested_at)),
        jsonb_build_object('cancel_requested_at', p_request.cancel_requested_at)
      )
    ) as r(reason, applies, sentence, figures)
    where r.applies;
  if v_lease.held or (v_visible is null and v_lease.held is null) then
    return;
  end if;

  select * into v_policy from tidegate.policy_in_force as f where f.kind = p_request.kind and f.stage = v_stage;
  select b.state, b.open_until, b.probes, p.breaker_probes as allowed,
    coalesce(b.state = 'open' and b.open_until > p_now, false) as is_open,
    case when exists (
      select from tidegate.breaker_event as e
      where e.kind = b.kind and e.stage = b.stage and e.cause = 'unauthorized' and e.epoch > coalesce((
        select max(c.epoch) from tidegate.breaker_event as c
        where c.kind = b.kind and c.stage = b.stage and c.state = 'closed'
      ), 0)
    ) then ': the downstream refuses the credential of its calls (401, 403)' end as why
  into v_breaker
  from tidegate.breaker as b
  join tidegate.policy as p on p.kind = b.kind and p.stage = b.stage
  where b.kind = p_request.kind and b.stage = v_stage and b.state <> 'closed';
  v_position := (
    select w.waiting from tidegate_internal.waiting_before(v_queue.name, array[p_request.msg_id], null, p_now) as w
  );
  v_turn := tidegate_internal.explain_turn(v_queue.name, p_request.msg_id, p_now);
  v_held := tidegate_internal.held_count(v_queue.name, p_now);
  v_slots := tidegate_internal.pacing_slots(
    pg_sequence_last_value(tidegate_internal.queue_counter(v_queue.name, 'pacing')), v_queue.per_seconds,
    v_queue.burst, p_now
  );
  v_snoozed := coalesce(v_visible > p_now, false);
  v_per_s := (select d.per_second_1m from tidegate.queue_drain_rate as d where d.queue = v_queue.name);
  return query
    select r.reason, r.sentence, jsonb_strip_nulls(r.figures || jsonb_build_object('queue', v_queue.name))
    from (values
      (
        'quarantined', exists (select from tidegate.quarantine_state),
        format('nothing is sent from this database: %s; `tidegate adopt` ends that',
          (select s.because from tidegate.quarantine_state as s)),
        '{}'
      ),
      ('paused', v_queue.paused, format('queue %s is paused: `tidegate resume %1$s`', v_queue.name), '{}'::jsonb),
      (
        'paused', p_request.kind = any(v_queue.paused_kinds),
        format('kind %s is paused: `tidegate resume --kind %1$s`', p_request.kind),
        jsonb_build_object('kind', p_request.kind)
      ),
      (
        'paused', coalesce(v_turn.key_paused, false),
        format('its %s is paused in queue %s: `tidegate keys %2$s` lists what is', v_queue.fair_by, v_queue.name), '{}'
      ),
      (
        'stopped', 0 in (v_queue.per_seconds, v_queue.max_concurrency),
        format('queue %s is stopped: its %s is 0', v_queue.name,
          case v_stage when 'tx' then 'per_seconds' else 'max_concurrency' end), '{}'
      ),
      (
        'lost', v_lease.held = false or p_request.req_status = 'tx_in_flight',
        format('the lease of %s has run out without an outcome (attempt %s): the next claim %s',
          coalesce(v_lease.worker, p_request.worker, 'its worker'), v_attempt,
          case
            when p_request.req_status = 'tx_in_flight' and (
              v_policy.semantics = 'at_most_once'
              or v_policy.since > p_request.tx_in_flight_at and 'at_most_once' = (
                tidegate_internal.policy_at(p_request.kind, 'tx', p_request.tx_in_flight_at)
              ).semantics
            ) then 'ends it as outcome_unknown, because it may have been sent'
            when v_attempt - v_free >= v_policy.attempts + (v_stage = 'tx')::integer
              then 'ends it, because its attempts are used up'
            when v_stage = 'tx' then 'takes it, and searches for its receipt first'
            else 'takes it'
          end),
        jsonb_build_object('worker', coalesce(v_lease.worker, p_request.worker), 'attempt', v_attempt)
      ),
      (
        'breaker_open', v_breaker.is_open,
        format('the %s breaker of %s is open until %s%s', v_stage, p_request.kind,
          tidegate_internal.plain_time(v_breaker.open_until), v_breaker.why),
        jsonb_build_object('stage', v_stage, 'open_until', v_breaker.open_until)
      ),
      (
        'breaker_half_open', not v_breaker.is_open,
        format('the %s breaker of %s is being tried: %s of %s probes are under way or done%s', v_stage, p_request.kind,
          case v_breaker.state when 'half_open' then v_breaker.probes else 0 end, v_breaker.allowed, v_breaker.why),
        jsonb_build_object('stage', v_stage, 'probes', v_breaker.probes, 'allowed', v_breaker.allowed)
      ),
      (
        case when v_attempt > 0 then 'backing_off' else 'not_before' end,
        -- A breaker may have snoozed it; the reason of the breaker has the time.
        v_snoozed and (v_attempt > 0 or v_breaker.state is null
          or v_visible > v_breaker.open_until + interval '1 minute'),
        case
          when v_attempt > 0 then format('backing off after attempt %s%s: its next %s is due at', v_attempt,
            ' (' || nullif(v_error, '') || ')', v_call)
          else 'snoozed until'
        end || format(' %s, in %s', tidegate_internal.plain_time(v_visible),
          tidegate_internal.plain_span(case when v_snoozed then v_visible - p_now end)),
        jsonb_build_object('until', v_visible, 'attempt', v_attempt, 'error', p_request.error, 'position', v_position)
      ),
      (
        'concurrency_full', not v_snoozed and v_queue.max_concurrency > 0 and v_held >= v_queue.max_concurrency,
        format('concurrency full: %s of %s checks of queue %s are under way', v_held, v_queue.max_concurrency,
          v_queue.name),
        jsonb_build_object('held', v_held, 'max_concurrency', v_queue.max_concurrency)
      ),
      (
        'rate_limited', not v_snoozed and v_queue.per_seconds > 0 and v_slots.slots = 0,
        format('rate limited: queue %s sends %s/s, and the next is claimed in %s ms', v_queue.name,
          v_queue.per_seconds, v_slots.wait_ms),
        jsonb_build_object('per_seconds', v_queue.per_seconds, 'wait_ms', v_slots.wait_ms)
      ),
      (
        'waiting_behind', v_position > 0,
        format('waiting behind %s in %s%s%s (%s/s in the last minute)%s',
          case v_position when 1 then '1 other' else v_position || ' others' end, v_queue.name,
          ', which sends ' || v_queue.per_seconds || '/s at most',
          ', which checks ' || v_queue.max_concurrency || ' at once at most', round(v_per_s, 1),
          ': ' || v_turn.before || ' of its ' || v_queue.fair_by || ' before it, and ' || v_turn.keys || ' '
            || v_queue.fair_by || case when v_turn.keys <> 1 then 's' else '' end || ' in turns'),
        jsonb_build_object('position', v_position, 'per_seconds', v_queue.per_seconds,
          'max_concurrency', v_queue.max_concurrency, 'drained_per_second', v_per_s,
          'before_in_its_key', v_turn.before, 'keys', v_turn.keys)
      ),
      (
        'no_worker', not exists (
          select from tidegate.worker as w
          where v_queue.name = any(w.queues) and (w.kinds is null or p_request.kind = any(w.kinds))
            and w.stopped_at is null and w.last_seen_at > p_now - interval '30 seconds'
        ),
        format('no live worker takes requests of kind %s from queue %s', p_request.kind, v_queue.name),
        jsonb_build_object('kind', p_request.kind)
      ),
      (
        'next', v_position = 0 and (v_visible <= p_now or v_lease.held = false),
        format('it is the next in %s', v_queue.name), jsonb_build_object('position', 0)
      )
    ) as r(reason, applies, sentence, figures)
    where r.applies;
end;
$$;
