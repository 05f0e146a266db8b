-- webhook_redeliver: By an operator: delivers the end of a request again; returns the previous state of its delivery,
-- or null when it has none.
--
-- Null: the request has no callback, or retention has removed the delivery. A delivery that is under way stays under
-- way.
create or replace function tidegate.webhook_redeliver(request_id uuid)
  returns text language plpgsql security definer as $$
declare
  v_before text;
begin
  select d.state into v_before
  from tidegate.webhook_delivery as d where d.request_id = webhook_redeliver.request_id for update;
  update tidegate.webhook_delivery as d
  set state = 'pending', attempt = 0, lease_token = null, due_at = tidegate.clock(), finished_at = null
  where d.request_id = webhook_redeliver.request_id and (d.lease_token is null or d.due_at <= tidegate.clock());
  return v_before;
end;
$$;
select tidegate_internal.allow('webhook_redeliver', '{admin}');
