-- delete_messages: removes messages from a queue; with `p_drained`, counts them as served by it, and how long each
-- was held
create or replace function tidegate_internal.delete_messages(p_queue text, p_msg_ids bigint[], p_drained boolean)
  returns void
  language plpgsql
  -- A plan that is kept may have been made for empty tables: joined as written, along indexes, it serves full ones, too.
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_mergejoin = off
  set join_collapse_limit = 1
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_now     constant timestamptz := tidegate.clock();
  v_held_ms bigint;
begin
  if coalesce(cardinality(p_msg_ids), 0) = 0 then
    return;
  end if;

  case p_queue
    -- each queue
    when 'QUEUE' then
      with gone as (
        delete from pgmq.q_QUEUE as m where m.msg_id = any(p_msg_ids) returning m.last_read_at
      )
      select coalesce(extract(epoch from sum(v_now - g.last_read_at)) * 1000, 0) into v_held_ms from gone as g;
    -- end of each queue
    else perform tidegate_internal.refuse_queue(p_queue);
  end case;

  perform tidegate_internal.look_at_gate(p_queue, 'too_many_requests');

  if p_drained then
    insert into tidegate.queue_drain (queue, at, drained, held_ms)
    values (p_queue, v_now, cardinality(p_msg_ids), greatest(v_held_ms, 0));
  end if;
end;
$$;

comment on function tidegate_internal.delete_messages is
  'Removes messages from a queue and, if asked, counts them as served.';
