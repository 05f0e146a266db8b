-- kind_callback: Trigger on kind: its callback URL is allowed (TG009).
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
