-- messages_of: The messages named that exist, with their requests.
create or replace function tidegate_internal.messages_of(p_queues text[], p_msg_ids bigint[])
  returns table (queue text, msg_id bigint, request_id uuid) language plpgsql stable as $$
declare
  v_queue text;
begin
  for v_queue in
    select q.name
    from tidegate.queue as q
    where q.name = any(p_queues) and to_regclass(tidegate_internal.queue_table(q.name)) is not null
    order by q.name
  loop
    return query execute format(
      'select $1, m.msg_id, tidegate.message_request_id(m.message) from %s as m where m.msg_id = any($2)',
      tidegate_internal.queue_table(v_queue)
    )
    using v_queue, array(select m.msg_id from unnest(p_queues, p_msg_ids) as m(queue, msg_id) where m.queue = v_queue);
  end loop;
end;
$$;
