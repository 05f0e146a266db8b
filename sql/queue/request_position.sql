-- request_position: How many waiting messages stand before a request's; 0: next, or held; null: in no queue, or
-- unknown.
--
-- Null when the request is in no queue, or unknown. Exact while the queue is quiet: deep in a busy one, what was
-- cancelled or came due in the last seconds may be missing from it (see `waiting_before`). Slow where maintenance has
-- not run lately.
create or replace function tidegate.request_position(id uuid)
  returns bigint language sql stable security definer as $$
  select p.queue_position
  from tidegate.request as r
  cross join lateral tidegate_internal.message_place(r.queue, r.msg_id, r.id, r.lease, null) as p
  where r.id = request_position.id;
$$;
select tidegate_internal.allow('request_position', '{reader,api,worker,admin}');
