-- set_callback: Sets the callback URL of a live request; false when it has ended; TG009 for a URL that is not allowed.
--
-- Call it in the transaction of the submission, or any time before the request ends. False, and nothing changed, when
-- it has ended: its delivery has been decided. Raises TG006 for an unknown request.
create or replace function tidegate.set_callback(id uuid, url text)
  returns boolean language plpgsql security definer
as $$
begin
  perform tidegate_internal.require_callback(set_callback.url);
  update tidegate.request as r
  set callback_url = set_callback.url
  where r.id = set_callback.id and r.req_status not in ('completed', 'timed_out', 'failure');
  if found then
    return true;
  end if;
  if not exists (select from tidegate.request as r where r.id = set_callback.id) then
    raise exception using errcode = 'TG006', message = format('there is no request %s', set_callback.id);
  end if;
  return false;
end;
$$;
select tidegate_internal.allow('set_callback', '{api,admin}');
