-- submit_plain: Submits one request of the common sort: without quota, delay, readiness check, observed ETA or made
-- key.
--
-- In few statements, because a caller waits for each. Where the request is of another sort or something stands in the
-- way (a closed gate, a breaker, a void number, a key that is stored already), it has stored nothing and returns nulls:
-- `submit_requests` takes over, by the same rules and in the same order of locks. That also refuses invalid keys, and
-- raises all errors.
--
-- Its callers set the planner settings and `tidegate.submits`: once, because a setting costs as much as a small query.
--
-- The draw is announced only if the transaction has written before its key: else it is the first one (see
-- `announce_draw`).
create or replace function tidegate_internal.submit_plain(
  p_kind text, p_payload jsonb, p_submitter text, p_key text, p_key_patience_ms integer, p_same_key text,
  out id uuid, out req_status tidegate.request_status, out queue text, out queue_position bigint,
  out retry_after_seconds integer
)
  language plpgsql as $$
declare
  v_now          timestamptz := tidegate.clock();
  v_terms        record;
  v_first        boolean;
  v_lock_timeout text;
  v_set          text;
  v_entered      record;
begin
  select t.*, tidegate_internal.key_scope(p_kind, t.key_scope, p_submitter) as scope into v_terms
  from tidegate.submit_terms as t
  join tidegate.gate as e on e.name = t.gate
  where t.kind = p_kind and e.state = 'accepting' and p_payload is not null
    and (p_key is null and not t.makes_keys or length(p_key) between 1 and 255) and p_same_key in ('compare', 'replay')
    and current_setting('transaction_isolation') = 'read committed'
    and current_setting('tidegate.config_changed', true) is distinct from 'on';
  if not found then
    return;
  end if;
  if v_terms.has_breaker or v_terms.has_quotas then
    if exists (select from tidegate.breaker as b where b.kind = p_kind and b.stage = 'tx' and b.state <> 'closed')
      or exists (select from tidegate.gate as c where c.submitter = p_submitter)
    then
      return;
    end if;
  end if;

  id := tidegate_internal.uuid_v7(v_now);
  if p_key is not null then
    v_first := pg_current_xact_id_if_assigned() is null;
    if p_key_patience_ms is not null then
      v_lock_timeout := current_setting('lock_timeout');
      v_set := set_config('lock_timeout', p_key_patience_ms::text, true);
    end if;
    insert into tidegate.dedup (scope, key, fingerprint, request_id, first_seen, dedup_window, expires_at)
    values (
      v_terms.scope, p_key,
      case p_same_key when 'compare' then tidegate_internal.fingerprint(p_payload, v_terms.set_paths) else '' end,
      submit_plain.id, v_now, v_terms.dedup_window, (v_now at time zone 'UTC' + v_terms.dedup_window) at time zone 'UTC'
    )
    on conflict (scope, key) do nothing;
    if p_key_patience_ms is not null then
      v_set := set_config('lock_timeout', v_lock_timeout, true);
    end if;
    if not found then
      id := null;
      return;
    end if;
    v_now := tidegate.clock();
  end if;

  v_entered := tidegate_internal.enter_queue(v_terms.queue, array[id], v_terms.high_water, '-infinity', v_first);
  if v_entered.numbers is null then
    if p_key is not null then
      delete from tidegate.dedup as d where d.scope = v_terms.scope and d.key = p_key;
    end if;
    id := null;
    return;
  end if;
  queue_position := v_entered.waiting;
  with counted as (
    insert into tidegate.request_count_delta (kind, req_status, delta, submitted) values (p_kind, 'processing', 1, 1)
  )
  insert into tidegate.request as r (
    id, kind, flow, req_status, cause, response_threshold, queue, msg_id, submitted_at, processing_at, deadline_at,
    submitter, eta_seconds, payload
  )
  values (
    submit_plain.id, p_kind, v_terms.flow, 'processing', 'submitted', v_terms.response_threshold, v_terms.queue,
    v_entered.numbers[1], v_now, v_now, v_now + v_terms.deadline, p_submitter,
    tidegate.bounded_seconds(
      v_terms.eta_first + v_terms.eta_each * v_entered.waiting, v_terms.eta_below, v_terms.min_seconds,
      v_terms.max_seconds
    ),
    p_payload
  )
  returning r.req_status, r.queue, r.eta_seconds into req_status, queue, retry_after_seconds;
  if queue_position = 0 then
    perform pg_notify('tidegate_queue', queue);
  end if;
  if v_entered.fills then
    perform tidegate_internal.gate_evaluate(v_terms.gate, 'accepting');
  end if;
end;
$$;
