-- set_kind_callback: By an operator: sets the callback URL of a kind, or removes it (null); returns the previous one.
--
-- It counts for every request that ends from now on and has no URL of its own. Raises TG002 for an unknown kind, TG009
-- for a URL that is not allowed.
create or replace function tidegate.set_kind_callback(kind text, url text)
  returns text language plpgsql security definer as $$
declare
  v_before text;
begin
  perform tidegate_internal.require_kind(set_kind_callback.kind);
  select k.callback_url into v_before from tidegate.kind as k where k.name = set_kind_callback.kind for update;
  update tidegate.kind as k set callback_url = set_kind_callback.url where k.name = set_kind_callback.kind;
  return v_before;
end;
$$;
select tidegate_internal.allow('set_kind_callback', '{admin}');
