-- queue_counts: How many requests each queue has, waiting and held, and how long its oldest has been in it.
--
-- One pass over each queue: a million messages take a fraction of a second. A queue without requests has zeros, and no
-- oldest. A request whose lease has run out waits for the claim that reaps it.
create or replace function tidegate.queue_counts()
  returns table (queue text, depth bigint, waiting bigint, held bigint, oldest_at timestamptz)
  language plpgsql stable security definer as $$
declare
  v_now   timestamptz := tidegate.clock();
  v_queue text;
begin
  for v_queue in select q.name from tidegate_internal.stored_queues() as q loop
    return query execute format(
      $sql$
        select $1, m.depth + l.leased, m.waiting + l.run_out, l.held, least(m.oldest_at, l.oldest_at)
        from (
          select count(*) as depth, count(*) filter (where m.vt <= $2) as waiting, min(m.enqueued_at) as oldest_at
          from %s as m
        ) as m
        cross join (
          select count(*) as leased, count(*) filter (where l.in_force) as held,
            count(*) filter (where l.until <= $2) as run_out, min(l.claimed_at) as oldest_at
          from tidegate.leased_request as l
          where l.queue = $1
        ) as l
      $sql$, tidegate_internal.queue_table(v_queue)
    ) using v_queue, v_now;
  end loop;
end;
$$;
select tidegate_internal.allow('queue_counts', '{reader,api,worker,admin}');
