-- submitter_counts: Who has requests in the queues, of all or of one, those with the most first: how many of them wait
-- or are held, and since when the oldest has been there.
--
-- A null `submitter` are the requests without one. One pass over each queue, which reads each of its requests.
-- Raises TG005 for an unknown queue.
create or replace function tidegate.submitter_counts(in_queue text default null, max_rows integer default 100)
  returns table (
    queue text, submitter text, requests bigint, waiting bigint, held bigint, oldest_at timestamptz,
    high_water integer
  )
  language plpgsql stable security definer as $$
#variable_conflict use_column
declare
  v_now     timestamptz := tidegate.clock();
  v_queries text;
begin
  perform tidegate_internal.require_queue(in_queue) where in_queue is not null;
  select string_agg(format(
    $sql$
      select %1$L::text as queue, r.submitter, m.vt <= $1 as waits, false as is_held, m.enqueued_at as since
      from %2$s as m
      join tidegate.request as r on r.id = tidegate.message_request_id(m.message) and r.msg_id = m.msg_id
      where r.queue = %1$L
    $sql$, q.name, tidegate_internal.queue_table(q.name)
  ), ' union all ') || ' union all' into v_queries
  from tidegate_internal.stored_queues() as q
  where q.name = coalesce(in_queue, q.name);
  return query execute format(
    $sql$
      select i.queue, i.submitter, count(*), count(*) filter (where i.waits), count(*) filter (where i.is_held),
        min(i.since), (select g.high_water from tidegate.gate as g where g.submitter = i.submitter)
      from (
        %s
        select l.queue, r.submitter, l.until <= $1, l.in_force, l.claimed_at
        from tidegate.leased_request as l
        join tidegate.request as r on r.id = l.id
        where l.queue = coalesce($2, l.queue)
      ) as i
      group by i.queue, i.submitter
      order by count(*) desc, i.queue, i.submitter
      limit $3
    $sql$, v_queries
  ) using v_now, in_queue, max_rows;
end;
$$;
select tidegate_internal.allow('submitter_counts', '{reader,api,worker,admin}');
