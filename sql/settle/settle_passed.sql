-- settle_passed: queued → processing, when the readiness check passed; returns the requests that moved.
--
-- Returns the requests that moved, and their tx queue. A request missing from the result was not this holder's any more
-- (lease taken over, cancelled, timed out): drop the outcome. `wake`: nothing waited in that queue before, so its
-- workers may be asleep. `took_ms` and `hedges` (one per lease, or null): how long the check took, and how many hedges
-- were made for it.
create or replace function tidegate_internal.settle_passed(
  leases tidegate.lease[], took_ms integer[] default null, hedges integer[] default null
)
  returns table (id uuid, req_status tidegate.request_status, queue text, wake boolean)
  language plpgsql
as $$
declare
  v_held     record;
  v_moved    record;
  v_tx_queue text;
  v_wake     boolean;
  v_done     text; -- for an assignment, which costs less than a statement
begin
  select * into v_held from tidegate_internal.lock_held(leases);
  if v_held.ids is null then
    return;
  end if;

  perform tidegate_internal.register_draw(q.name, q.passing, (tidegate_internal.queue_numbers(q.name)).last)
  from (
    select k.tx_queue as name, count(*)::integer as passing
    from unnest(v_held.kinds) as h(kind)
    join tidegate.kind as k on k.name = h.kind
    group by k.tx_queue
    order by k.tx_queue
  ) as q;
  v_done := set_config('tidegate.declared', pg_current_xact_id()::text, true);
  -- The numbers are drawn in the order of the checks: an update goes through its rows in any order.
  with numbered as materialized (
    select
      h.id, h.msg_id, h.place, h.token, h.claimed, nextval(tidegate_internal.queue_sequence(h.tx_queue)) as number,
      h.tx_queue
    from (
      select h.id, h.msg_id, h.place, h.token, h.claimed, k.tx_queue
      from unnest(v_held.ids, v_held.kinds, v_held.msg_ids, v_held.places, v_held.tokens, v_held.claimed)
        as h(id, kind, msg_id, place, token, claimed)
      join tidegate.kind as k on k.name = h.kind
      order by h.msg_id
    ) as h
  ), moved as (
    update tidegate.request as r
    set
      previous_status = r.req_status, req_status = 'processing', transition_no = r.transition_no + 1,
      cause = 'readiness_passed', processing_at = tidegate.clock(),
      queue = n.tx_queue, msg_id = n.number, lease = null, error = null
    from numbered as n
    where r.id = any(array[n.id]) and r.req_status = 'queued'
    returning r.id, r.queue, r.msg_id, n.msg_id as done, r.kind, r.readiness_attempt, n.place, n.token, n.claimed
  )
  select
    array_agg(m.id) as ids, array_agg(m.queue) as queues, array_agg(m.msg_id) as msg_ids,
    array_agg(m.kind) as kinds, array_agg(m.readiness_attempt = 1) as first, array_agg(m.place) as places,
    array_agg(m.token) as tokens, array_agg(m.claimed) as claimed
  into v_moved
  from (select m.* from moved as m order by m.done) as m;
  v_done := set_config('tidegate.declared', '', true);

  perform tidegate_internal.end_leases(v_held.queue, v_moved.ids, v_moved.tokens, v_moved.claimed);
  for v_tx_queue in select distinct q from unnest(v_moved.queues) as q order by q loop
    v_wake := not tidegate_internal.queue_has_waiting(v_tx_queue);
    perform tidegate_internal.send_messages(
      v_tx_queue,
      array(select m.id from unnest(v_moved.ids, v_moved.queues) with ordinality as m(id, queue, place)
            where m.queue = v_tx_queue order by m.place),
      array(select m.msg_id from unnest(v_moved.msg_ids, v_moved.queues) with ordinality as m(msg_id, queue, place)
            where m.queue = v_tx_queue order by m.place)
    );
    perform tidegate_internal.gate_evaluate(v_tx_queue, 'accepting');
    return query
      select m.id, 'processing'::tidegate.request_status, m.queue, v_wake
      from unnest(v_moved.ids, v_moved.queues) as m(id, queue)
      where m.queue = v_tx_queue;
  end loop;
  perform tidegate_internal.record_calls(
    'readiness', v_moved.kinds, v_moved.first, null, null, v_moved.places, took_ms, hedges, v_moved.claimed
  );
end;
$$;
select tidegate_internal.plan_along_indexes('settle_passed');
