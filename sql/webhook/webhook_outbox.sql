-- webhook_outbox: Trigger on request: writes a delivery for each request that ended and has a callback URL.
--
-- In the transaction that ends the request, so neither is there without the other. A statement that ends no such
-- request pays for one read of the new rows and one of the kinds. Nothing here raises: an invalid URL, written by hand,
-- fails its delivery and not the request.
create or replace function tidegate_internal.webhook_outbox()
  returns trigger language plpgsql as $$
begin
  if not exists (select from tidegate.kind as k where k.callback_url is not null)
    and not exists (select from new_rows as r where r.callback_url is not null)
  then
    return null;
  end if;

  insert into tidegate.webhook_delivery (request_id, id, url, host_port, due_at)
  select r.id, tidegate_internal.uuid_v7(), u.url, coalesce(tidegate_internal.webhook_host_port(u.url), '?'),
    tidegate.clock()
  from new_rows as r
  join tidegate.kind as k on k.name = r.kind
  cross join lateral (select coalesce(r.callback_url, k.callback_url)) as u(url)
  where r.req_status in ('completed', 'timed_out', 'failure') and r.previous_status is distinct from r.req_status
    and u.url is not null
  on conflict do nothing;
  return null;
end;
$$;

create or replace trigger webhook_outbox
  after update on tidegate.request
  referencing new table as new_rows
  for each statement execute function tidegate_internal.webhook_outbox();

-- function kind_callback: Trigger on kind: its callback URL is allowed (TG009).
--
-- A kind's callback is checked when it is set, so that the operator sees the error.
create or replace function tidegate_internal.kind_callback()
  returns trigger language plpgsql security definer as $$
begin
  perform tidegate_internal.require_callback(new.callback_url);
  return null;
end;
$$;

create or replace trigger kind_callback
  after insert or update of callback_url on tidegate.kind
  for each row execute function tidegate_internal.kind_callback();

-- function webhook_host_secret: Trigger on webhook_host: the first host makes a secret.
--
-- Nothing is delivered unsigned: the first host makes the first secret.
create or replace function tidegate_internal.webhook_host_secret()
  returns trigger language plpgsql security definer as $$
begin
  if not exists (select from tidegate.webhook_secret as s where s.host is null and s.expires_at is null) then
    insert into tidegate.webhook_secret (secret) values (tidegate_internal.webhook_new_secret());
  end if;
  return null;
end;
$$;

create or replace trigger webhook_host_secret
  after insert on tidegate.webhook_host
  for each statement execute function tidegate_internal.webhook_host_secret();
