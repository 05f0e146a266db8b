-- leased_count: How many requests of a queue are under a lease, up to a number, whether it is in force or has run out.
create or replace function tidegate_internal.leased_count(p_queue text, p_last bigint default null)
  returns bigint
  language plpgsql
  stable
  -- A plan that is kept may have been made for empty tables: joined as written, along indexes, it serves full ones,
  -- too.
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_mergejoin = off
  set enable_hashjoin = off
  set join_collapse_limit = 1
  set search_path = pg_catalog, pg_temp
as $$
begin
  return (
    select count(*)
    from tidegate.claim as c
    cross join unnest(c.ids) as i(id)
    join tidegate.request as r on r.id = any(array[i.id]) and r.lease = c.token
    where c.queue = p_queue and (p_last is null or r.msg_id <= p_last)
  );
end;
$$;
