-- leased_count: How many requests of a queue are under a lease, up to a number, whether it is in force or has run out.
create or replace function tidegate_internal.leased_count(p_queue text, p_last bigint default null)
  returns bigint language plpgsql stable as $$
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
select tidegate_internal.plan_along_indexes('leased_count', 'hashjoin');
