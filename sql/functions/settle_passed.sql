-- tidegate.settle_passed: queued → processing, for requests whose readiness check passed
--
-- Returns the requests that moved, and their tx queue. A request missing from the result was not this holder's any
-- more (lease taken over, cancelled, timed out): drop the outcome. `wake` tells that nothing waited in that queue
-- before, so its workers may be asleep.
create or replace function tidegate.settle_passed(leases tidegate.lease[])
  returns table (id uuid, req_status tidegate.request_status, queue text, wake boolean)
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
  set jit = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_held     record;
  v_ids      uuid[];
  v_queues   text[];
  v_msg_ids  bigint[];
  v_done     bigint[];
  v_tx_queue text;
  v_wake     boolean;
begin
  select * into v_held from tidegate.lock_held(leases);
  if v_held.ids is null then
    return;
  end if;

  with moved as (
    update tidegate.request as r
    set
      req_status = 'processing', transition_no = r.transition_no + 1, cause = 'readiness_passed',
      queue = k.tx_queue, msg_id = nextval(tidegate.queue_sequence(k.tx_queue)), error = null
    from unnest(v_held.ids, v_held.msg_ids) as h(id, msg_id), tidegate.kind as k
    where r.id = h.id and r.req_status = 'queued' and r.queue = v_held.queue and r.msg_id = h.msg_id
      and k.name = r.kind
    returning r.id, r.queue, r.msg_id, h.msg_id as done
  )
  select
    array_agg(m.id order by m.done), array_agg(m.queue order by m.done), array_agg(m.msg_id order by m.done),
    array_agg(m.done)
  into v_ids, v_queues, v_msg_ids, v_done
  from moved as m;

  perform tidegate.delete_messages(v_held.queue, v_done, true);
  for v_tx_queue in select distinct q from unnest(v_queues) as q order by q loop
    v_wake := not tidegate.queue_has_waiting(v_tx_queue);
    perform tidegate.send_messages(
      v_tx_queue,
      array(select m.id from unnest(v_ids, v_queues) with ordinality as m(id, queue, place)
            where m.queue = v_tx_queue order by m.place),
      array(select m.msg_id from unnest(v_msg_ids, v_queues) with ordinality as m(msg_id, queue, place)
            where m.queue = v_tx_queue order by m.place)
    );
    perform tidegate.look_at_gate(v_tx_queue, 'accepting');
    return query
      select m.id, 'processing'::tidegate.request_status, m.queue, v_wake
      from unnest(v_ids, v_queues) as m(id, queue)
      where m.queue = v_tx_queue;
  end loop;
end;
$$;
