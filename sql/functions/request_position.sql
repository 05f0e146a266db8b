-- tidegate.request_position: how many waiting messages stand before a request's in its queue; 0 when it is held
--
-- Null when the request is in no queue, or unknown. Exact.
create or replace function tidegate.request_position(id uuid)
  returns bigint
  language sql
  stable
  security definer
  set search_path = pg_catalog, pg_temp
  set jit = off
as $$
  select p.queue_position
  from tidegate.request as r
  cross join lateral tidegate.message_place(r.queue, r.msg_id) as p
  where r.id = request_position.id;
$$;
