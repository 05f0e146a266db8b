-- tidegate.invariant_slice: the slice of requests that ends before `before` (null: the newest): where it begins, how many it has
--
-- It has about `batch` requests, and about four times as many steps of history: the history of removed requests outlives them.
-- `id_from` is null when nothing older is left.
create or replace function tidegate.invariant_slice(
  before       uuid,
  batch        integer,
  out id_from  uuid,
  out requests bigint
)
  language plpgsql
  stable
  security definer
  set search_path = pg_catalog, pg_temp
  set jit = off
  set plan_cache_mode = force_custom_plan
as $$
declare
  v_before  uuid := coalesce(invariant_slice.before, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
  v_request uuid;
  v_step    uuid;
begin
  select r.id into v_request from tidegate.request as r where r.id < v_before order by r.id desc offset batch limit 1;
  select e.request_id into v_step
  from tidegate.request_event as e
  where e.request_id < v_before
  order by e.request_id desc
  offset 4 * batch limit 1;
  id_from := greatest(v_request, v_step);
  select count(*) into requests
  from tidegate.request as r
  where r.id >= coalesce(id_from, '00000000-0000-0000-0000-000000000000') and r.id < v_before;
end;
$$;
