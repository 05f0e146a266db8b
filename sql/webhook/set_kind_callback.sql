-- set_kind_callback: By an operator: names the URL that is told when requests of a kind end; null: nobody; returns the
-- one before.
--
-- Counts for every request that ends from now on and names no URL of its own. Returns the URL before.
-- Raises TG002 for an unknown kind, TG009 for a URL that may not be named.
create or replace function tidegate.set_kind_callback(kind text, url text)
  returns text
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_before text;
begin
  select k.callback_url into v_before from tidegate.kind as k where k.name = set_kind_callback.kind for update;
  if not found then
    raise exception using
      errcode = 'TG002',
      message = format('there is no kind "%s"', set_kind_callback.kind),
      hint = 'select name from tidegate.kind';
  end if;
  update tidegate.kind as k set callback_url = set_kind_callback.url where k.name = set_kind_callback.kind;
  return v_before;
end;
$$;
select tidegate_internal.allow('set_kind_callback', '{admin}');
