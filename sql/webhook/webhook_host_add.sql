-- webhook_host_add: By an operator: lets callback URLs name a host; true when it is new to the list.
--
-- `host` is a name, a wildcard (`*.example.com`) or an address, with a port unless it is the scheme's own.
-- `allow_private` lets it have private and loopback addresses: for receivers of one's own network, and tests. Added
-- again, a host takes the `allow_private` given last.
create or replace function tidegate.webhook_host_add(host text, allow_private boolean default false)
  returns boolean language plpgsql security definer as $$
declare
  v_host text := lower(webhook_host_add.host);
begin
  update tidegate.webhook_host as h set allow_private = webhook_host_add.allow_private where h.host = v_host;
  if found then
    return false;
  end if;
  insert into tidegate.webhook_host as h (host, allow_private) values (v_host, webhook_host_add.allow_private)
  on conflict on constraint webhook_host_pkey do update set allow_private = excluded.allow_private;
  return true;
end;
$$;
select tidegate_internal.allow('webhook_host_add', '{admin}');
