-- request_removal: Trigger on request: what belongs to a removed request goes with it; a truncate is refused (TG001).
create or replace function tidegate_internal.request_removal()
  returns trigger language plpgsql as $$
begin
  if tg_op = 'TRUNCATE' then
    raise exception using errcode = 'TG001',
      message = 'tidegate.request may not be truncated: live requests would be lost',
      hint = 'delete finished requests instead';
  end if;

  delete from tidegate.response_part as p where p.request_id = any(array(select id from old_rows));
  delete from tidegate.request_reference as f where f.request_id = any(array(select id from old_rows));
  delete from tidegate.response_inbox as i where i.request_id = any(array(select id from old_rows));
  delete from tidegate.webhook_delivery as w where w.request_id = any(array(select id from old_rows));
  delete from tidegate.redrive as v where v.request_id = any(array(select id from old_rows));
  insert into tidegate.request_count_delta (kind, req_status, delta)
  select r.kind, r.req_status, -count(*) from old_rows as r group by r.kind, r.req_status;
  return null;
end;
$$;

create or replace trigger request_removal
  after delete on tidegate.request
  referencing old table as old_rows
  for each statement execute function tidegate_internal.request_removal();

create or replace trigger request_is_never_truncated
  before truncate on tidegate.request
  for each statement execute function tidegate_internal.request_removal();
