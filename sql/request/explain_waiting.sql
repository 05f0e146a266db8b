-- explain_waiting: `explain` for a request that is in a queue, or should be.
--
-- One snapshot, but for limits that are counted in sequences.
create or replace function tidegate_internal.explain_waiting(p_request tidegate.request, p_now timestamptz)
  returns table (reason text, sentence text, figures jsonb) language plpgsql stable as $$
#variable_conflict use_column
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
  v_queue    tidegate.queue;
  v_visible  timestamptz;
  v_lease    record;
  v_policy   tidegate.policy_in_force;
  v_breaker  record;
  v_position bigint;
  v_held     bigint;
  v_slots    record;
  v_per_s    numeric;
begin
  if v_deadline <= p_now then
    return query select
      'overdue',
      format('overdue: its deadline passed at %s, and the next sweep ends it',
        tidegate_internal.plain_time(v_deadline)),
      jsonb_build_object('deadline_at', v_deadline);
  end if;

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
  if v_visible is null and v_lease.held is null then
    return query select
      'no_message',
      format(
        'it is %s, and has no message in %s: `tidegate recover` makes it again', p_request.req_status,
        coalesce('queue ' || p_request.queue, 'any queue')
      ),
      jsonb_strip_nulls(jsonb_build_object('queue', p_request.queue, 'msg_id', p_request.msg_id));
    return;
  end if;

  if v_lease.held then
    return query select
      'held',
      format(
        'held by %s for its %s (attempt %s), under a lease until %s', coalesce(v_lease.worker, 'a worker'),
        v_call, v_attempt, tidegate_internal.plain_time(v_lease.until)
      ),
      jsonb_strip_nulls(jsonb_build_object(
        'worker', v_lease.worker, 'until', v_lease.until, 'attempt', v_attempt, 'queue', v_queue.name
      ));
    return;
  end if;
  if v_queue.paused then
    return query select
      'paused', format('queue %s is paused: `tidegate resume %1$s`', v_queue.name),
      jsonb_build_object('queue', v_queue.name);
  end if;
  if v_queue.per_seconds = 0 or v_queue.max_concurrency = 0 then
    return query select
      'stopped',
      format('queue %s is stopped: its %s is 0', v_queue.name,
        case v_stage when 'tx' then 'per_seconds' else 'max_concurrency' end),
      jsonb_build_object('queue', v_queue.name);
  end if;

  if v_lease.held = false or p_request.req_status = 'tx_in_flight' then
    select * into v_policy from tidegate.policy_in_force as f where f.kind = p_request.kind and f.stage = v_stage;
    return query select
      'lost',
      format(
        'the lease of %s has run out without an outcome (attempt %s): the next claim %s',
        coalesce(v_lease.worker, p_request.worker, 'its worker'), v_attempt,
        case
          when p_request.req_status = 'tx_in_flight' and (
            v_policy.semantics = 'at_most_once'
            or v_policy.since > p_request.tx_in_flight_at
              and (tidegate_internal.policy_at(p_request.kind, 'tx',
                p_request.tx_in_flight_at)).semantics = 'at_most_once'
          ) then 'ends it as outcome_unknown, because it may have been sent'
          when v_attempt - v_free >= v_policy.attempts + case v_stage when 'tx' then 1 else 0 end
            then 'ends it, because its attempts are used up'
          when v_stage = 'tx' then 'takes it, and looks for a receipt first'
          else 'takes it'
        end
      ),
      jsonb_strip_nulls(jsonb_build_object(
        'worker', coalesce(v_lease.worker, p_request.worker), 'attempt', v_attempt, 'queue', v_queue.name
      ));
  end if;

  select b.state, b.open_until, b.probes, p.breaker_probes as allowed into v_breaker
  from tidegate.breaker as b
  join tidegate.policy as p on p.kind = b.kind and p.stage = b.stage
  where b.kind = p_request.kind and b.stage = v_stage and b.state <> 'closed';
  if v_breaker.state = 'open' and v_breaker.open_until > p_now then
    return query select
      'breaker_open',
      format(
        'the %s breaker of %s is open until %s', v_stage, p_request.kind,
        tidegate_internal.plain_time(v_breaker.open_until)
      ),
      jsonb_build_object('stage', v_stage, 'open_until', v_breaker.open_until);
  elsif v_breaker.state is not null then
    return query select
      'breaker_half_open',
      format(
        'the %s breaker of %s is being tried: %s of %s probes are under way or done', v_stage, p_request.kind,
        case v_breaker.state when 'half_open' then v_breaker.probes else 0 end, v_breaker.allowed
      ),
      jsonb_build_object('stage', v_stage, 'probes', v_breaker.probes, 'allowed', v_breaker.allowed);
  end if;

  v_position := tidegate_internal.waiting_before(v_queue.name, p_request.msg_id, null, p_now);
  if v_visible > p_now then
    -- A breaker may have snoozed it; the line of the breaker has the time.
    if v_breaker.state is null or v_attempt > 0 or v_visible > v_breaker.open_until + interval '1 minute' then
      return query select
        case when v_attempt > 0 then 'backing_off' else 'not_before' end,
        case
          when v_attempt > 0 then format(
            'backing off after attempt %s%s: its next %s is due at %s, in %s', v_attempt,
            coalesce(' (' || concat_ws(': ', p_request.error ->> 'code', p_request.error ->> 'message') || ')', ''),
            v_call,
            tidegate_internal.plain_time(v_visible), tidegate_internal.plain_span(v_visible - p_now)
          )
          else format(
            'snoozed until %s, in %s', tidegate_internal.plain_time(v_visible),
            tidegate_internal.plain_span(v_visible - p_now)
          )
        end,
        jsonb_strip_nulls(jsonb_build_object(
          'until', v_visible, 'attempt', v_attempt, 'error', p_request.error, 'queue', v_queue.name, 'position',
          v_position
        ));
    end if;
  else
    if v_queue.max_concurrency > 0 then
      v_held := tidegate_internal.held_count(v_queue.name, p_now);
      if v_held >= v_queue.max_concurrency then
        return query select
          'concurrency_full',
          format(
            'concurrency full: %s of %s checks of queue %s are under way', v_held, v_queue.max_concurrency, v_queue.name
          ),
          jsonb_build_object('held', v_held, 'max_concurrency', v_queue.max_concurrency, 'queue', v_queue.name);
      end if;
    elsif v_queue.per_seconds > 0 then
      select s.slots, s.wait_ms into v_slots
      from tidegate_internal.pacing_slots(
        pg_sequence_last_value(tidegate_internal.queue_counter(v_queue.name, 'pacing')), v_queue.per_seconds,
        v_queue.burst, p_now
      ) as s;
      if v_slots.slots = 0 then
        return query select
          'rate_limited',
          format(
            'rate limited: queue %s sends %s/s, and the next is claimed in %s ms', v_queue.name, v_queue.per_seconds,
            v_slots.wait_ms
          ),
          jsonb_build_object('per_seconds', v_queue.per_seconds, 'wait_ms', v_slots.wait_ms, 'queue', v_queue.name);
      end if;
    end if;
  end if;

  if v_position > 0 then
    select d.per_second_1m into v_per_s from tidegate.queue_drain_rate as d where d.queue = v_queue.name;
    return query select
      'waiting_behind',
      format(
        'waiting behind %s in %s%s', case v_position when 1 then '1 other' else v_position || ' others' end,
        v_queue.name,
        case when v_queue.per_seconds is not null then format(', which sends %s/s at most', v_queue.per_seconds)
          when v_queue.max_concurrency is not null
            then format(', which checks %s at once at most', v_queue.max_concurrency)
          else '' end || format(' (%s/s in the last minute)', round(v_per_s, 1))
      ),
      jsonb_strip_nulls(jsonb_build_object(
        'queue', v_queue.name, 'position', v_position, 'per_seconds', v_queue.per_seconds,
        'max_concurrency', v_queue.max_concurrency, 'drained_per_second', v_per_s
      ));
  end if;
  if not exists (
    select from tidegate.worker as w
    where v_queue.name = any(w.queues) and (w.kinds is null or p_request.kind = any(w.kinds))
      and w.stopped_at is null and w.last_seen_at > p_now - interval '30 seconds'
  ) then
    return query select
      'no_worker',
      format('no live worker takes requests of kind %s from queue %s', p_request.kind, v_queue.name),
      jsonb_build_object('queue', v_queue.name, 'kind', p_request.kind);
  end if;
  if v_position = 0 and (v_visible <= p_now or v_lease.held = false) then
    return query select
      'next', format('it is the next in %s', v_queue.name), jsonb_build_object('queue', v_queue.name, 'position', 0);
  end if;
end;
$$;
