-- submit_plain: submits one request as most are: without key, cap, delay, readiness check or observed ETA
--
-- In few statements, because a caller waits for each. Where anything else is asked for or stands in the way (a closed gate, a
-- breaker, a number drawn in vain, too), it has stored nothing and returns nulls: `submit_requests` takes over, by the same
-- rules.
create or replace function tidegate_internal.submit_plain(
  p_kind                  text,
  p_payload               jsonb,
  p_submitter             text,
  out id                  uuid,
  out req_status          tidegate.request_status,
  out queue               text,
  out queue_position      bigint,
  out retry_after_seconds integer
)
  language plpgsql
  -- A plan that is kept may have been made for empty tables: joined as written, along indexes, it serves full ones, too.
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_mergejoin = off
  set join_collapse_limit = 1
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now     constant timestamptz := tidegate.clock();
  v_terms   record;
  v_entered record;
begin
  select
    k.flow, k.tx_queue, k.deadline, k.response_threshold, e.name as gate, e.high_water, s.min_seconds, s.max_seconds, l.*
  into v_terms
  from tidegate.kind as k
  join tidegate.queue as q on q.name = k.tx_queue
  join tidegate.gate as e on e.queue = k.tx_queue
  cross join tidegate.setting as s
  cross join lateral tidegate.eta_line(
    'tx_queue', null, q.per_seconds, null, null, k.processing_ms, k.tx_confirmation_ms, s.safety_margin
  ) as l
  where k.name = p_kind and k.flow <> 'decrypt' and k.key_mode = 'caller' and k.eta = 'nominal' and not q.paused
    and e.state = 'accepting' and e.mode <> 'soft' and not e.forced and l.first is not null and l.below is not null
    and not exists (select from tidegate.gate as c where c.kind = p_kind or c.submitter = p_submitter)
    and not exists (select from tidegate.breaker as b where b.kind = p_kind and b.stage = 'tx' and b.state <> 'closed');
  if not found or p_payload is null or current_setting('transaction_isolation') <> 'read committed' then
    return;
  end if;
  id := tidegate_internal.uuid_v7(v_now);
  v_entered := tidegate_internal.enter_queue(v_terms.tx_queue, array[id], v_terms.high_water, '-infinity');
  if v_entered.numbers is null then
    id := null;
    return;
  end if;
  req_status := 'processing';
  queue := v_terms.tx_queue;
  queue_position := v_entered.waiting;
  retry_after_seconds := greatest(v_terms.min_seconds, least(v_terms.max_seconds, tidegate.whole_seconds(
    v_terms.first + v_terms.each * queue_position, v_terms.below
  )));
  insert into tidegate.request (
    id, kind, flow, req_status, cause, response_threshold, queue, msg_id, submitted_at, processing_at, deadline_at, submitter,
    eta_seconds, payload
  )
  values (
    submit_plain.id, p_kind, v_terms.flow, submit_plain.req_status, 'submitted', v_terms.response_threshold, submit_plain.queue,
    v_entered.numbers[1], v_now, v_now, v_now + v_terms.deadline, p_submitter, retry_after_seconds, p_payload
  );
  if queue_position = 0 then
    perform pg_notify('tidegate_queue', queue);
  end if;
  if v_entered.fills then
    perform tidegate_internal.look_at_gate(v_terms.gate, 'accepting');
  end if;
end;
$$;

comment on function tidegate_internal.submit_plain is
  'Submits one request that asks for nothing unusual; nulls when something is.';
