-- webhook_resolved: Writes a delivery for each of these requests that has a callback URL: it is known now whether it
-- was executed.
--
-- It takes the place of the delivery of the end, which is not made any more if it was still pending: this one has the
-- whole state, and every attempt of a delivery has the same body.
create or replace function tidegate_internal.webhook_resolved(p_ids uuid[])
  returns void language plpgsql as $$
begin
  insert into tidegate.webhook_delivery (request_id, id, event, url, host_port, due_at)
  select r.id, tidegate_internal.uuid_v7(), 'request.resolved', u.url,
    coalesce(tidegate_internal.webhook_host_port(u.url), '?'), tidegate.clock()
  from tidegate.request as r
  join tidegate.kind as k on k.name = r.kind
  cross join lateral (select coalesce(r.callback_url, k.callback_url)) as u(url)
  where r.id = any(p_ids) and u.url is not null
  order by r.id
  on conflict (request_id) do update
  set
    id = excluded.id, event = excluded.event, url = excluded.url, host_port = excluded.host_port, state = 'pending',
    attempt = 0, due_at = excluded.due_at, lease_token = null, last_status = null, last_error = null,
    created_at = tidegate.clock(), finished_at = null;
end;
$$;
select tidegate_internal.plan_along_indexes('webhook_resolved');
