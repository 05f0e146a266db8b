-- sweep_cursor_rewind: Lets a deadline sweep's next batch begin before what this one had to pass over.
--
-- A request that changed its queue or number while `end_requests` waited for its message is left live by it, and
-- the sweep's cursor may stand behind it already. The caller has just called both. Returns whether there is one.
create or replace function tidegate_internal.sweep_cursor_rewind(
  p_duty   text,
  p_column text,
  p_ids    uuid[],
  p_from   tidegate.request_status[]
)
  returns boolean
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_due_at timestamptz;
begin
  execute format(
    'select min(r.%1$I) from tidegate.request as r where r.id = any($1) and r.req_status = any($2) and r.%1$I <= $3',
    p_column
  ) into v_due_at using p_ids, p_from, tidegate.clock();
  if v_due_at is not null then
    update tidegate.maintenance as m
    set cursor_at = v_due_at, cursor_id = '00000000-0000-0000-0000-000000000000'
    where m.duty = p_duty;
  end if;
  return v_due_at is not null;
end;
$$;
