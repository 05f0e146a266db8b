-- submit_requests: what `submit` and `submit_batch` share
--
-- Replays are always answered. Of what is new, the gates let in all or nothing; with `p_each` as many as there is room for,
-- request by request. A refused one leaves nothing behind.
--
-- A request without a key has the one that its kind makes, if it makes any (see `made_keys`).
--
-- The locks of the gates first, then those of made keys, then dedup keys (in key order), then messages, then rows; the gate
-- that closes comes last. Each message's number is drawn before, because the row names it. A submission that finds its
-- queue empty wakes the workers when it commits.
create or replace function tidegate_internal.submit_requests(
  p_kind       text,
  p_payloads   jsonb[],
  p_keys       text[],
  p_submitter  text,
  p_admission  text,
  p_not_before timestamptz,
  p_each       boolean default false
)
  returns table (
    id uuid, outcome text, req_status tidegate.request_status, queue text, queue_position bigint,
    retry_after_seconds integer, eta_p50_ms bigint, eta_p90_ms bigint
  )
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_kind     tidegate.kind := tidegate_internal.submittable_kind(p_kind);
  v_count    integer := coalesce(cardinality(p_payloads), 0);
  v_queue    text := coalesce(v_kind.readiness_queue, v_kind.tx_queue);
  v_status   tidegate.request_status := case when v_kind.flow = 'decrypt' then 'queued' else 'processing' end;
  v_visible  timestamptz := '-infinity';
  v_now      timestamptz;
  v_made     text[];
  v_own      uuid[];
  v_ids      uuid[];
  v_new      uuid[];
  v_payloads jsonb[];
  v_msg_ids  bigint[];
  v_waiting  bigint;
  v_admitted tidegate.admission;
  v_known    uuid[];
  v_fresh    bigint;
  v_taken    bigint[];
  v_refused  bigint[];
  v_wait     integer;
  v_terms    tidegate.eta_terms;
  v_told     tidegate.retry_after[];
  -- Counting costs a submission more than anything else it does: of what the last survey does not know, an upper bound
  -- will do. A quiet queue has less than a block of that.
  v_counted  constant integer := 256;
begin
  if p_admission is null or p_admission not in ('enforce', 'accepted') then
    raise exception using
      errcode = 'TG007',
      message = format('admission is ''enforce'' or ''accepted'', not %L', p_admission);
  end if;
  if p_not_before = 'infinity' then
    raise exception using
      errcode = 'TG007', message = 'not_before is a time, not infinity: such a request would never start';
  end if;
  if v_count > 10000 then
    raise exception using
      errcode = 'TG007', message = format('a batch holds at most 10000 requests, not %s', v_count);
  end if;
  if array_position(p_payloads, null) is not null then
    raise exception using
      errcode = 'TG007', message = format('payload %s is null', array_position(p_payloads, null));
  end if;
  if p_keys is not null and cardinality(p_keys) <> v_count then
    raise exception using
      errcode = 'TG007', message = format('%s payloads need as many idempotency keys, not %s', v_count, cardinality(p_keys));
  end if;
  if v_count = 0 then
    return;
  end if;
  if v_kind.key_mode <> 'caller' then
    v_made := tidegate_internal.made_keys(v_kind, p_payloads, p_keys, p_submitter);
  end if;

  if p_admission = 'enforce' then
    begin
      perform tidegate_internal.require_read_committed('submit');
      v_admitted := tidegate_internal.admit(v_kind, p_submitter, v_count);
    exception when lock_not_available or sqlstate 'TG007' or sqlstate 'TG012' then
      -- What is known already passes no gate.
      if (p_keys is null and v_made is null)
        or array_position(tidegate_internal.dedup_find_all(v_kind, p_payloads, p_keys, v_made, p_submitter), null) is not null
      then
        raise;
      end if;
      v_admitted.room := 0;
    end;
  end if;
  if v_admitted.room < v_count then
    select s.known, s.fresh, s.taken, s.refused into v_known, v_fresh, v_taken, v_refused
    from tidegate_internal.sort_out(v_kind, p_payloads, p_keys, v_made, p_submitter, v_admitted.room, p_each) as s;
  end if;
  if v_refused is not null then
    v_wait := tidegate_internal.gate_wait(
      v_kind, p_submitter, case when p_each then 1 else v_fresh end, coalesce(cardinality(v_taken), 0)
    );
    v_wait := (
      select tidegate_internal.spread_seconds(v_wait, least(v_wait * (1 + t.jitter), greatest(v_wait, t.max_seconds)), random())
      from tidegate.setting as t
    );
    return query
      with let_in as materialized (
        select v_taken[i.number] as place, i.*
        from tidegate_internal.submit_requests(
          p_kind, array(select p_payloads[t.place] from unnest(v_taken) as t(place)),
          case when p_keys is not null then array(select p_keys[t.place] from unnest(v_taken) as t(place)) end,
          p_submitter, 'accepted', p_not_before
        ) with ordinality as i(
          id, outcome, req_status, queue, queue_position, retry_after_seconds, eta_p50_ms, eta_p90_ms, number
        )
      )
      select
        coalesce(i.id, s.id),
        case when i.id is not null then i.outcome when s.id is not null then 'replayed' else 'refused' end,
        coalesce(i.req_status, r.req_status), coalesce(i.queue, r.queue), coalesce(i.queue_position, e.queue_position),
        coalesce(i.retry_after_seconds, e.retry_after_seconds, case when s.id is null then v_wait end),
        coalesce(i.eta_p50_ms, e.eta_p50_ms), coalesce(i.eta_p90_ms, e.eta_p90_ms)
      from unnest(v_known) with ordinality as s(id, place)
      left join tidegate.request as r on r.id = s.id
      left join lateral tidegate.request_outlook(s.id) as e on not p_each
      left join let_in as i on i.place = s.place
      order by s.place;
    -- Whom a group leaves no room finds the gate closed, even if some of those before have been served meanwhile.
    perform tidegate_internal.close_gates(v_admitted, case when p_each then v_admitted.room else 0 end);
    return;
  end if;

  v_own := array(select tidegate_internal.uuid_v7() from generate_series(1, v_count));
  v_ids := v_own;
  v_new := v_own;
  v_payloads := p_payloads;
  if v_made is not null or array_remove(p_keys, null) <> '{}' then
    v_ids := tidegate_internal.dedup_claim_all(v_kind, p_payloads, p_keys, v_made, p_submitter, v_ids);
    select array_agg(n.id order by n.place), array_agg(n.payload order by n.place) into v_new, v_payloads
    from unnest(v_own, v_ids, p_payloads) with ordinality as n(id, stands_for, payload, place)
    where n.id = n.stands_for;
    if cardinality(v_new) > v_admitted.room then
      raise exception using
        errcode = '40001',
        message = 'an earlier request of this submission has just failed, and there is no room for a new one',
        hint = 'submit again';
    end if;
  end if;

  if v_new is not null then
    v_waiting := coalesce(v_admitted.waiting, tidegate_internal.waiting_before(v_queue, null, v_counted));
    v_msg_ids := array(
      select nextval(sequence) from tidegate_internal.queue_sequence(v_queue) as sequence, generate_series(1, cardinality(v_new))
    );
    v_now := tidegate.clock();
    if p_not_before > v_now then
      v_visible := p_not_before;
    end if;
    perform tidegate_internal.send_messages(v_queue, v_new, v_msg_ids, v_visible);
    v_terms := tidegate_internal.eta_inputs(v_kind, v_queue, v_status, v_counted);
    v_told := tidegate_internal.submit_etas(
      v_kind, v_queue, v_waiting, v_new, case when p_not_before > v_now then p_not_before - v_now end, v_terms, v_now
    );

    insert into tidegate.request (
      id, kind, flow, req_status, cause, response_threshold, queue, msg_id, submitted_at, deadline_at,
      readiness_deadline_at, submitter, eta_seconds, eta_p90_ms, payload
    )
    select
      n.id, v_kind.name, v_kind.flow, v_status, 'submitted', v_kind.response_threshold, v_queue, n.msg_id, v_now,
      greatest(v_now, p_not_before) + v_kind.deadline,
      case when v_kind.flow = 'decrypt' then greatest(v_now, p_not_before) + v_kind.readiness_timeout end,
      p_submitter, n.seconds, n.p90_ms, n.payload
    from unnest(v_new, v_msg_ids, v_payloads, v_told) as n(id, msg_id, payload, seconds, p50_ms, p90_ms);

    insert into tidegate.gate_member (gate, request_id)
    select g.name, n.id
    from tidegate.gate as g
    cross join unnest(v_new) as n(id)
    where g.kind = p_kind or g.submitter = p_submitter;

    if v_waiting = 0 then
      perform pg_notify('tidegate_queue', v_queue);
    end if;
  end if;

  if p_admission = 'enforce' then
    perform tidegate_internal.close_gates(v_admitted, coalesce(cardinality(v_new), 0));
  elsif v_new is not null then
    perform tidegate_internal.look_at_gate(g.name, 'accepting')
    from tidegate.gate as g
    where g.queue = v_queue or g.kind = p_kind or g.submitter = p_submitter;
  end if;

  if v_new is null or cardinality(v_new) < v_count then
    -- A replay is told its place exactly as a poll would be, except in a group: see `submit_group`.
    return query
      select s.id, case when s.id = s.own then 'accepted' else 'replayed' end, r.req_status, r.queue,
        coalesce(v_waiting + n.place - 1, e.queue_position), coalesce(n.seconds, e.retry_after_seconds),
        coalesce(n.p50_ms, e.eta_p50_ms), coalesce(n.p90_ms, e.eta_p90_ms)
      from unnest(v_ids, v_own) with ordinality as s(id, own, place)
      join tidegate.request as r on r.id = s.id
      left join unnest(v_new, v_told) with ordinality as n(id, seconds, p50_ms, p90_ms, place) on n.id = s.id
      left join lateral tidegate.request_outlook(s.id) as e on n.id is null and not p_each
      order by s.place;
  else
    return query
      select s.id, 'accepted', v_status, v_queue, v_waiting + s.place - 1, s.seconds, s.p50_ms, s.p90_ms
      from unnest(v_ids, v_told) with ordinality as s(id, seconds, p50_ms, p90_ms, place)
      order by s.place;
  end if;
end;
$$;

comment on function tidegate_internal.submit_requests is 'What submit and submit_batch share.';
