-- submit_requests: The one path of `submit`, `submit_batch` and `submit_group`, for one request and for many.
--
-- `submit` stores a single request of the common sort itself.
--
-- Replays are always answered. The gates let in all new requests or none; with `p_each` as many as there is room for,
-- request by request. A refused one leaves nothing behind.
--
-- A request without a key has the one that its kind derives, if it derives any (see `derived_keys`). Only requests that
-- are answered each by itself may be of several submitters, and only if none of these has a quota: its lock would keep
-- the others waiting. With `p_key_patience_ms`, a key that another transaction is about to use is waited for no longer
-- than that (55P03).
--
-- The locks of quotas first, then those of derived keys, then dedup keys (in key order), then numbers, then messages
-- and rows; the gate that closes comes last. A group's room is counted after the wait for keys, right before the draw.
-- Nothing waits after the numbers are drawn: they take room from others (see `enter_queue`). A submission that finds
-- its queue empty wakes the workers when it commits.
create or replace function tidegate_internal.submit_requests(
  p_kind text, p_payloads jsonb[], p_keys text[], p_submitters text[], p_admission text,
  p_not_before timestamptz, p_each boolean default false, p_key_patience_ms integer default null,
  p_same_key text default 'compare', p_links boolean default true, p_traceparents text[] default null,
  p_callback_urls text[] default null
)
  returns table (
    id uuid, outcome text, req_status tidegate.request_status, queue text, queue_position bigint,
    retry_after_seconds integer, eta_p50_ms bigint, eta_p90_ms bigint
  )
  language plpgsql
as $$
declare
  v_count        constant integer := coalesce(cardinality(p_payloads), 0);
  v_distinct     constant text[] := case
    when p_each and v_count > 1 then array(select distinct s from unnest(p_submitters) as s)
    else p_submitters[1:1]
  end;
  -- Of several submitters none has a quota, and nothing else depends on the submitter.
  v_submitter    constant text := v_distinct[1];
  v_with_quota   text;
  v_terms        record;
  v_kind         tidegate.kind;
  v_queue        text;
  v_status       tidegate.request_status;
  v_limit        bigint;
  v_keys         record;
  v_scopes       text[];
  v_derived      text[];
  v_prints       bytea[];
  v_keyed        boolean := false;
  v_quotas       tidegate.admission;
  v_admission    tidegate.admission;
  v_lock_timeout text;
  v_own          uuid[];
  v_ids          uuid[];
  v_new          uuid[];
  v_payloads     jsonb[] := p_payloads;
  v_submitters   text[] := p_submitters;
  v_traceparents text[] := p_traceparents;
  v_callback_urls text[] := p_callback_urls;
  v_fresh        integer := v_count;
  v_lost         integer := 0;
  v_enters       integer;
  v_room         record;
  v_entered      record;
  v_waiting      bigint;
  v_positions    bigint[];
  v_wait         integer;
  v_now          timestamptz := tidegate.clock();
  v_etas         tidegate.retry_after[];
begin
  select * into v_kind from tidegate.kind as k where k.name = p_kind;
  v_queue := coalesce(v_kind.readiness_queue, v_kind.tx_queue);
  select
    e.name as gate, e.high_water, e.forced, e.mode = 'soft' as is_soft,
    'too_many_requests' in (e.state, l.state) as is_closed,
    exists (select from tidegate.gate as c where c.kind = p_kind or c.submitter = any(v_distinct)) as has_quota,
    s.safety_margin
  into v_terms
  from tidegate.setting as s
  left join tidegate.gate as e on e.queue = v_queue
  left join tidegate.gate as l on l.queue = v_kind.tx_queue;
  if num_nulls(v_kind.processing_ms, v_kind.tx_confirmation_ms, v_terms.safety_margin) > 0
    or (v_kind.flow = 'decrypt' and v_kind.readiness_ms is null)
  then
    perform tidegate_internal.require_times(p_kind);
  end if;
  if v_terms.has_quota then
    v_with_quota := (select min(c.submitter) from tidegate.gate as c where c.submitter = any(v_distinct));
  end if;
  -- One expression for the common case; the error is determined only when it fails.
  if (
    p_admission in ('enforce', 'accepted') and v_count <= 10000
    and (p_not_before <= v_now + v_kind.not_before_max) is not false
    and array_position(p_payloads, null) is null and coalesce(cardinality(p_keys), v_count) = v_count
    and cardinality(p_submitters) = v_count and p_same_key in ('compare', 'replay')
    and (v_with_quota is null or cardinality(v_distinct) = 1)
  ) is not true then
    perform tidegate_internal.check_submission(
      p_payloads, p_keys, p_submitters, p_admission, p_not_before, v_now + v_kind.not_before_max, v_with_quota,
      p_same_key
    );
  end if;
  if v_count = 0 then
    return;
  end if;
  v_status := case when v_kind.flow = 'decrypt' then 'queued' else 'processing' end;

  if v_kind.key_mode <> 'caller' or coalesce(array_remove(p_keys, null) <> '{}', false) then
    v_keys := tidegate_internal.submission_keys(v_kind, p_payloads, p_submitters, p_keys, p_same_key);
    v_scopes := v_keys.scopes;
    v_derived := v_keys.derived;
    v_prints := v_keys.prints;
    v_keyed := v_prints is not null;
  end if;
  if v_keyed then
    v_ids := tidegate_internal.dedup_find_all(v_scopes, p_keys, v_derived, v_prints);
    if array_position(v_ids, null) is null then
      return query select * from tidegate_internal.submit_answers(p_kind, v_ids, null, p_each);
      return;
    end if;
  end if;

  if p_admission = 'enforce' then
    if current_setting('transaction_isolation') <> 'read committed' then
      perform tidegate_internal.require_read_committed('submit');
    end if;
    if v_terms.is_closed then
      v_quotas.room := 0;
    else
      v_limit := case when not v_terms.forced then v_terms.high_water end;
      if v_terms.has_quota then
        v_quotas := tidegate_internal.quota_enter(p_kind, v_submitter);
      end if;
    end if;
  end if;
  v_admission := v_quotas;

  if v_count = 1 then
    v_own := array[tidegate_internal.uuid_v7(v_now)];
  else
    v_own := array(
      select tidegate_internal.uuid_v7(v_now + place * interval '1 microsecond')
        from generate_series(0, v_count - 1) as place
    );
  end if;
  v_new := v_own;
  if not v_keyed then
    v_ids := v_own;
  else
    -- Requests that will be refused claim no key: it would have to be released.
    if v_quotas.room = 0 then
      v_fresh := (
        select count(distinct coalesce(k.scope || ' ' || k.key, k.derived, k.place::text))
        from unnest(v_ids, v_scopes, p_keys, v_derived) with ordinality as k(id, scope, key, derived, place)
        where k.id is null
      );
    else
      if p_key_patience_ms is not null then
        v_lock_timeout := current_setting('lock_timeout');
        perform set_config('lock_timeout', p_key_patience_ms::text, true);
      end if;
      v_ids := tidegate_internal.dedup_claim_all(v_kind, v_scopes, p_keys, v_derived, v_prints, v_own, p_links);
      if p_key_patience_ms is not null then
        perform set_config('lock_timeout', v_lock_timeout, true);
      end if;
      select
        array_agg(n.id order by n.place), array_agg(n.payload order by n.place),
        array_agg(n.submitter order by n.place), array_agg(n.traceparent order by n.place),
        array_agg(n.callback_url order by n.place)
      into v_new, v_payloads, v_submitters, v_traceparents, v_callback_urls
      from unnest(v_own, v_ids, p_payloads, p_submitters, p_traceparents, p_callback_urls)
        with ordinality as n(id, dedup_target, payload, submitter, traceparent, callback_url, place)
      where n.id = n.dedup_target;
      if v_new is null then
        return query select * from tidegate_internal.submit_answers(p_kind, v_ids, v_own, p_each);
        return;
      end if;
      v_fresh := cardinality(v_new);
    end if;
  end if;

  loop
    -- A single request goes by the numbers until they run out. A soft gate counts its depth.
    if v_limit is not null and v_admission.room is distinct from 0
      and (v_lost > 0 or v_terms.is_soft or (p_each and v_fresh > 1))
    then
      v_room := tidegate_internal.queue_room(v_queue, v_limit, v_fresh, not v_terms.is_soft);
      v_admission := row(
        least(v_quotas.room, v_room.room), v_quotas.closed, v_quotas.counted || v_terms.gate,
        v_quotas.depths || v_room.depth
      );
    end if;
    -- Others may take the room between its count and the draw, again and again.
    v_enters := least(v_fresh, v_admission.room, case when v_lost > 1 then v_enters / 2 end);
    if v_enters < v_fresh and not p_each then
      v_enters := 0;
    end if;
    exit when v_enters = 0;
    v_now := tidegate.clock();
    v_entered := tidegate_internal.enter_queue(
      v_queue, v_new[:v_enters], case when not v_terms.is_soft then v_limit end,
      case when p_not_before > v_now then p_not_before else '-infinity' end, p_kind, v_submitters
    );
    exit when v_entered.numbers is not null;
    v_lost := v_lost + 1;
  end loop;

  if v_enters > 0 then
    v_waiting := v_entered.waiting;
    v_positions := v_entered.positions;
    v_etas := tidegate_internal.submit_etas(
      v_kind, v_queue, v_waiting, v_positions, v_new[:v_enters],
      case when p_not_before > v_now then p_not_before - v_now end,
      tidegate_internal.eta_inputs(v_kind, v_queue, v_status, 1), v_now
    );
    perform tidegate_internal.store_requests(
      v_kind, v_queue, v_status, v_now, p_not_before, v_new[:v_enters], v_entered.numbers, v_payloads, v_submitters,
      v_etas, v_traceparents, v_callback_urls
    );
    if v_terms.has_quota then
      insert into tidegate.quota_usage (gate, request_id)
      select g.name, n.id
      from tidegate.gate as g
      cross join unnest(v_new[:v_enters]) as n(id)
      where g.kind = p_kind or g.submitter = v_submitter;
    end if;
    if v_waiting = 0 then
      perform pg_notify('tidegate_queue', v_queue);
    end if;
    if p_admission = 'accepted' or v_entered.fills or v_terms.is_soft then
      perform tidegate_internal.gate_evaluate(g.name, 'accepting')
      from tidegate.gate as g
      where g.queue = v_queue or (p_admission = 'accepted' and (g.kind = p_kind or g.submitter = v_submitter));
    end if;
  end if;
  if v_admission.room <= v_enters then
    -- By the depths that were counted: a new count may find less, because workers drain, and then the gate would stay
    -- open while it refuses callers.
    perform tidegate_internal.gate_flip(c.gate, 'too_many_requests', c.depth + v_enters)
    from unnest(v_admission.counted, v_admission.depths) as c(gate, depth);
  end if;

  if v_enters = v_count then
    return query
      select
        s.id, 'accepted', v_status, v_queue, coalesce(s.queue_position, v_waiting + s.place - 1), s.seconds,
        s.p50_ms, s.p90_ms
      from unnest(v_ids, v_etas, v_positions) with ordinality
        as s(id, seconds, p50_ms, p90_ms, queue_position, place)
      order by s.place;
    return;
  end if;
  if v_enters < v_fresh then
    if v_keyed then
      perform tidegate_internal.dedup_return(v_scopes, p_keys, v_derived, v_new[v_enters + 1:]);
    end if;
    if not p_each then
      perform tidegate_internal.require_room_ever(v_kind, v_submitter, v_fresh);
      v_ids := array_fill(null::uuid, array[v_count]);
    end if;
    v_wait := tidegate_internal.gate_wait(v_kind, v_submitter, case when p_each then 1 else v_fresh end);
  end if;
  return query
    select * from tidegate_internal.submit_answers(
      p_kind, v_ids, v_own, p_each, v_new, v_etas, v_waiting, v_positions, v_wait
    );
end;
$$;
select tidegate_internal.plan_along_indexes('submit_requests', 'sort');
