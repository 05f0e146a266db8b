-- settle_receipt: tx_in_flight → receipt_received, when the downstream took the request, or → completed with its
-- response; returns the requests that moved.
--
-- `refs` (one per lease, or null) are the downstream's references, under which responses may come; `responses` (one per
-- lease, or null) are answers that came with the receipt: a `direct` request completes with it in this very step,
-- others are answered as if it had come a moment later. Responses that came before their receipt are applied. `took_ms`
-- and `hedges` (one per lease, or null): how long the call took, and how many hedges were made for it. A reference
-- stands for one live request: a request whose reference another one awaits its response under, and that is not
-- answered by its receipt, ends in failure (outcome_unknown), because a response could not be attributed to it. Returns
-- the requests that moved and their status; a missing one was not this holder's any more (see `settle_late`).
create or replace function tidegate_internal.settle_receipt(
  leases tidegate.lease[], refs text[] default null, responses jsonb[] default null,
  took_ms integer[] default null, hedges integer[] default null
)
  returns table (id uuid, req_status tidegate.request_status) language plpgsql
as $$
declare
  v_queue constant text := tidegate_internal.lease_queue(leases);
  v_now   timestamptz;
  v_held  record;
  -- The request that each lease's reference is in use for; null where it is free, or the request is answered.
  v_taken uuid[];
  v_other record;
  v_moved record;
  v_done  text; -- for an assignment, which costs less than a statement
begin
  if array_remove(refs, null) <> '{}' then
    -- A response by reference searches for its request under the same lock: without it both could miss each other.
    perform tidegate_internal.lock_names('reference', refs);
    select * into v_held from tidegate_internal.lock_held(leases);
    v_taken := array_fill(null::uuid, array[coalesce(cardinality(leases), 0)]);
    for v_other in
      select n.place, coalesce(n.earlier, o.id) as id
      from (
        select
          h.place, h.id, refs[h.place] as reference, a.answered, nullif(first_value(h.id) over same, h.id) as earlier
        from unnest(v_held.ids, v_held.places) as h(id, place)
        cross join lateral (select * from tidegate.request as r where r.id = h.id offset 0) as r
        cross join lateral (
          -- A share, or a response to a proof, answers nothing yet.
          select coalesce(responses[h.place] is not null and r.flow <> 'proof'
            and r.response_threshold = 1, false) as answered
        ) as a
        window same as (partition by refs[h.place] order by a.answered, h.place)
      ) as n
      left join tidegate.request_reference as f on f.reference = n.reference and f.request_id <> n.id
      left join tidegate.request as o
        on o.id = any(array[f.request_id]) and o.req_status not in ('completed', 'timed_out', 'failure')
      where not n.answered and n.reference is not null and coalesce(n.earlier, o.id) is not null
    loop
      v_taken[v_other.place] := v_other.id;
    end loop;
  end if;

  v_now := tidegate.clock();
  v_done := set_config('tidegate.declared', pg_current_xact_id()::text, true);
  with moved as (
    update tidegate.request as r
    set
      req_status = case
        when h.taken is not null then 'failure'::tidegate.request_status
        when r.flow = 'direct' and responses[h.place] is not null then 'completed'
        else 'receipt_received'
      end,
      previous_status = r.req_status, transition_no = r.transition_no + 1,
      receipt_received_at = case
        when h.taken is null and (r.flow <> 'direct' or responses[h.place] is null) then v_now
          else r.receipt_received_at end,
      finished_at = case when h.taken is not null or (r.flow = 'direct' and responses[h.place] is not null)
        then v_now end,
      cause = case when h.taken is not null then 'outcome_unknown' else 'receipt' end,
      queue = null, msg_id = null, lease = null, reference = refs[h.place],
      response = case when r.flow = 'direct' then responses[h.place] end,
      error = case when h.taken is not null then tidegate_internal.error_json(
        'reference_in_use',
        format('the downstream took it under reference %s, under which request %s awaits its response', refs[h.place],
          h.taken),
        false
      ) end
    -- Locked in the order of their ids, as by `lock_held`.
    from (
      select l.queue, l.token, l.id, l.taken, l.place
      from unnest(leases, v_taken) with ordinality as l(queue, token, id, taken, place)
      order by l.id
    ) as h
    where r.id = any(array[h.id]) and r.lease = h.token and r.queue = h.queue and r.req_status = 'tx_in_flight'
    returning r.id, r.req_status, h.place, h.token, r.tx_in_flight_at, r.kind, r.tx_attempt,
      -- A decrypt of one response completes in the next step; other responses are parts, or verdicts.
      case
        when r.req_status = 'receipt_received' and responses[h.place] is not null
          then r.flow = 'decrypt' and r.response_threshold = 1
      end as is_answer
  )
  select
    array_agg(m.id) as ids, array_agg(m.req_status) as statuses, array_agg(m.place) as places,
    array_agg(m.id) filter (where m.req_status = 'receipt_received') as waiting,
    array_agg(m.is_answer) as answers,
    array_agg(m.kind) as kinds, array_agg(m.tx_attempt = 1) as first, array_agg(m.token) as tokens,
    array_agg(m.tx_in_flight_at) as claimed, count(*) < coalesce(cardinality(leases), 0) as some_are_late
  into v_moved
  from moved as m;
  v_done := set_config('tidegate.declared', '', true);
  if v_moved.some_are_late then
    perform tidegate_internal.settle_late(leases, null, refs, responses);
  end if;
  if v_moved.ids is null then
    return;
  end if;

  if array_remove(refs, null) <> '{}' then
    -- One of a request that has ended is free again.
    insert into tidegate.request_reference as f (reference, request_id)
    select distinct on (refs[m.place]) refs[m.place], m.id
    from unnest(v_moved.ids, v_moved.places, v_moved.statuses) as m(id, place, req_status)
    where refs[m.place] is not null and m.req_status <> 'failure'
    order by refs[m.place], m.req_status = 'completed', m.place
    on conflict (reference) do update
    set request_id = excluded.request_id
    where exists (
      select from tidegate.request as o where o.id = f.request_id
        and o.req_status in ('completed', 'timed_out', 'failure')
    );
  end if;
  perform tidegate_internal.end_leases(v_queue, v_moved.ids, v_moved.tokens, v_moved.claimed);

  if v_moved.waiting is not null then
    if false = any(v_moved.answers) then
      insert into tidegate.response_inbox (request_id, response)
      select m.id, responses[m.place]
      from unnest(v_moved.ids, v_moved.places, v_moved.answers) as m(id, place, is_answer)
      where not m.is_answer;
    end if;
    perform tidegate_internal.apply_inbox(v_moved.waiting);
    if true = any(v_moved.answers) then
      v_done := set_config('tidegate.declared', pg_current_xact_id()::text, true);
      -- All of them in one statement, after the responses that came earlier.
      with answered as (
        update tidegate.request as r
        set
          previous_status = r.req_status, req_status = 'completed', transition_no = r.transition_no + 1,
          cause = 'response', finished_at = v_now, response = responses[m.place]
        from unnest(v_moved.ids, v_moved.places, v_moved.answers) as m(id, place, is_answer)
        where m.is_answer and r.id = any(array[m.id]) and r.req_status = 'receipt_received'
        returning r.id
      )
      insert into tidegate.response_inbox (request_id, response, late)
      select m.id, responses[m.place], true
      from unnest(v_moved.ids, v_moved.places, v_moved.answers) as m(id, place, is_answer)
      where m.is_answer and m.id not in (select a.id from answered as a);
      v_done := set_config('tidegate.declared', '', true);
    end if;
  end if;
  perform tidegate_internal.record_calls(
    'tx', v_moved.kinds, v_moved.first, null, null, v_moved.places, took_ms, hedges, v_moved.claimed
  );

  if v_moved.waiting is not null then
    return query select r.id, r.req_status from tidegate.request as r where r.id = any(v_moved.ids);
  else
    return query select * from unnest(v_moved.ids, v_moved.statuses);
  end if;
end;
$$;
select tidegate_internal.plan_along_indexes('settle_receipt');
