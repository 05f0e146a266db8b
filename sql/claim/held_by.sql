-- held_by: how many messages each holder holds; a holder without any is not there
create or replace function tidegate.held_by()
  returns table (holder text, held bigint)
  language plpgsql
  stable
  security definer
  set search_path = pg_catalog, pg_temp
  set jit = off
as $$
#variable_conflict use_column
declare
  v_now   timestamptz := tidegate.clock();
  v_queue text;
begin
  for v_queue in
    select q.name from tidegate.queue as q where to_regclass(tidegate_internal.queue_table(q.name)) is not null order by q.name
  loop
    return query execute format(
      $sql$
        select m.headers ->> 'worker', count(*)
        from %s as m
        where m.headers is not null and tidegate.is_held(m.headers, m.vt, $1)
        group by m.headers ->> 'worker'
      $sql$,
      tidegate_internal.queue_table(v_queue)
    ) using v_now;
  end loop;
end;
$$;

comment on function tidegate.held_by is 'How many messages each holder holds, queue by queue.';
select tidegate_internal.allow('held_by', '{reader,api,worker,admin}');
