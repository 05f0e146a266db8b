-- lock_requests: Locks rows that still name the messages given, in id order.
--
-- After `lock_messages`: such a row does not change while its message is locked, and all transactions lock rows in this
-- order. A row that names another message by now has moved on, and is passed over.
create or replace function tidegate_internal.lock_requests(p_ids uuid[], p_queues text[], p_msg_ids bigint[])
  returns void language plpgsql as $$
begin
  perform from (
    select 1
    from unnest(p_ids, p_queues, p_msg_ids) as s(id, queue, msg_id)
    join tidegate.request as r on r.id = any(array[s.id])
    where r.queue is not distinct from s.queue and r.msg_id is not distinct from s.msg_id
    order by s.id
    for update of r
  ) as locked;
end;
$$;
