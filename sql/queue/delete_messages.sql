-- delete_messages: removes messages from a queue; with `p_drained`, counts them as served by it, and how long each
-- was held
create or replace function tidegate_internal.delete_messages(p_queue text, p_msg_ids bigint[], p_drained boolean)
  returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_now     constant timestamptz := tidegate.clock();
  v_held_ms bigint;
begin
  if coalesce(cardinality(p_msg_ids), 0) = 0 then
    return;
  end if;

  execute format(
    $sql$
      with gone as (
        delete from %s as m where m.msg_id = any($1) returning m.last_read_at
      )
      select coalesce(sum(extract(epoch from $2 - g.last_read_at)) * 1000, 0) from gone as g
    $sql$,
    tidegate_internal.queue_table(p_queue)
  ) into v_held_ms using p_msg_ids, v_now;

  perform tidegate_internal.look_at_gate(p_queue, 'too_many_requests');

  if p_drained then
    insert into tidegate.queue_drain (queue, at, drained, held_ms)
    values (p_queue, v_now, cardinality(p_msg_ids), greatest(v_held_ms, 0));
  end if;
end;
$$;

comment on function tidegate_internal.delete_messages is
  'Removes messages from a queue and, if asked, counts them as served.';
