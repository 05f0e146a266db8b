-- all_messages: The messages of every queue and the requests claimed from it; the view queue_position adds their
-- positions.
create or replace function tidegate.all_messages()
  returns table (queue text, msg_id bigint, request_id uuid, waiting boolean, held boolean, holder text,
    visible_at timestamptz)
  language plpgsql stable security definer as $$
declare
  v_now   timestamptz := tidegate.clock();
  v_queue text;
begin
  for v_queue in select q.name from tidegate_internal.stored_queues() as q loop
    return query execute format(
      'select $1, m.msg_id, tidegate.message_request_id(m.message), m.vt <= $2, false, null::text, m.vt from %s as m',
      tidegate_internal.queue_table(v_queue)
    ) using v_queue, v_now;
  end loop;
  -- A request whose lease has run out does not wait before others: one claim reaps it, and takes nothing else.
  return query select l.queue, l.msg_id, l.id, false, l.in_force, l.worker, l.until from tidegate.leased_request as l;
end;
$$;
select tidegate_internal.allow('all_messages', '{reader,api,worker,admin}');
