-- webhook_host_remove: By an operator: takes a host off the list of callback hosts; false when it was not there.
--
-- Pending deliveries to it fail at their next attempt, and can be delivered again once the host is back.
create or replace function tidegate.webhook_host_remove(host text)
  returns boolean language plpgsql security definer as $$
begin
  delete from tidegate.webhook_host as h where h.host = lower(webhook_host_remove.host);
  return found;
end;
$$;
select tidegate_internal.allow('webhook_host_remove', '{admin}');
