-- invariant_slice: The requests of a time span that ends before a request (null: the newest): the first id of the span,
-- and the number of requests in it.
--
-- It begins `span` before the newest request that is older than `before`, or the newest history: that of removed
-- requests outlives them. Ids contain the time, so its bounds are found without a scan; `requests` are counted.
-- `id_from` is null when nothing older is left.
create or replace function tidegate.invariant_slice(
  before uuid, span interval,
  out id_from uuid, out requests bigint
)
  language plpgsql stable security definer
  set plan_cache_mode = force_custom_plan
as $$
declare
  v_before uuid := coalesce(invariant_slice.before, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
  v_newest uuid := greatest(
    (select r.id from tidegate.request as r where r.id < v_before order by r.id desc limit 1),
    (select e.request_id from tidegate.stored_event as e
      where e.request_id < v_before order by e.request_id desc limit 1)
  );
  v_at     timestamptz;
begin
  if v_newest is not null then
    -- The first 48 bits are milliseconds.
    v_at := to_timestamp(('x' || left(replace(v_newest::text, '-', ''), 12))::bit(48)::bigint / 1000.0);
    id_from := tidegate.uuid_v7_floor(greatest(v_at - span, 'epoch'));
  end if;
  select count(*) into requests
  from tidegate.request as r
  where r.id >= coalesce(id_from, '00000000-0000-0000-0000-000000000000') and r.id < v_before;
end;
$$;
select tidegate_internal.allow('invariant_slice', '{reader,admin}');
