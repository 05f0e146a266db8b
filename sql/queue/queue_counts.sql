-- queue_counts: how many messages each queue has, waits with and has given out, and since when its oldest is in it
--
-- One pass over each queue, which looks into a message only where somebody has put headers: a million take a fraction
-- of a second. A queue without messages has zeros, and no oldest.
create or replace function tidegate.queue_counts()
  returns table (queue text, depth bigint, waiting bigint, held bigint, oldest_at timestamptz)
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
        select
          $1, count(*), count(*) filter (where m.vt <= $2),
          count(*) filter (where m.headers is not null and tidegate.is_held(m.headers, m.vt, $2)), min(m.enqueued_at)
        from %s as m
      $sql$,
      tidegate_internal.queue_table(v_queue)
    ) using v_queue, v_now;
  end loop;
end;
$$;

comment on function tidegate.queue_counts is
  'How many messages each queue has, in all, waiting and held, and since when the oldest is in it.';
select tidegate_internal.allow('queue_counts', '{reader,api,worker,admin}');
