-- webhook_host_secret: Trigger on webhook_host: the first host makes a secret.
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
