-- fair_keys: The keys of a fair queue that have requests there, or settings; those with most waiting first.
--
-- `name` is the submitter or kind, empty for requests without a submitter. `waiting` may be taken now, `held` are under
-- a lease. `share` of the services is what the weight gives the key among those that wait; `oldest_age` is since the
-- submission of the first that waits. Raises TG005 for an unknown queue, TG007 for a fifo queue.
create or replace function tidegate.fair_keys(queue text, batch integer default 100)
  returns table (
    name text, weight integer, paused boolean, waiting bigint, held bigint, share numeric, oldest_age interval
  )
  language plpgsql stable security definer as $$
#variable_conflict use_column
declare
  v_queue constant tidegate.queue := tidegate_internal.require_fair_queue(fair_keys.queue);
begin
  return query execute format(
    $sql$
      with counted as materialized (
        select c.key, sum(c.n)::bigint as n
        from (
          select t.key, t.waiting as n from tidegate.%1$I as t
          union all
          select a.key, a.n from tidegate.%2$I as a where a.at <= $2
        ) as c
        group by c.key
        having sum(c.n) > 0
      ), held as materialized (
        select
          tidegate_internal.fair_key($3, r.submitter, r.kind) as key,
          min(case $3 when 'kind' then r.kind else coalesce(r.submitter, '') end) as name, count(*) as n
        from tidegate.leased_request as l
        join tidegate.request as r on r.id = l.id
        where l.queue = $1 and l.in_force
        group by 1
      ), of_key as materialized (
        select
          k.key, coalesce(s.name, h.name) as name, coalesce(s.weight, 1) as weight, coalesce(s.paused, false) as paused,
          coalesce(c.n, 0) as waiting, coalesce(h.n, 0) as held
        from (
          select c.key from counted as c
          union select h.key from held as h
          union select s.key from tidegate.fair_key as s where s.queue = $1
        ) as k
        left join counted as c on c.key = k.key
        left join held as h on h.key = k.key
        left join tidegate.fair_key as s on s.queue = $1 and s.key = k.key
      ), shared as materialized (
        select
          k.*,
          case when k.waiting > 0 and not k.paused then round(k.weight::numeric / sum(k.weight)
            filter (where k.waiting > 0 and not k.paused) over (), 4) end as share
        from of_key as k
        order by k.waiting desc, k.held desc, k.name
        limit $4
      )
      select
        coalesce(k.name, f.name, ''), k.weight, k.paused, k.waiting, k.held, coalesce(k.share, 0),
        greatest(interval '0', $2 - f.submitted_at)
      from shared as k
      left join lateral (
        select case $3 when 'kind' then r.kind else r.submitter end as name, r.submitted_at
        from (
          select tidegate.message_request_id(m.message) as id
          from %3$s as m
          where m.fair_key = k.key and m.vt <= $2
          order by m.fair_key, m.msg_id
          limit 1
        ) as m
        join tidegate.request as r on r.id = m.id
      ) as f on true
      order by k.waiting desc, k.held desc, 1
    $sql$,
    'turn_' || v_queue.name, 'arrival_' || v_queue.name, tidegate_internal.queue_table(v_queue.name)
  ) using v_queue.name, tidegate.clock(), v_queue.fair_by, fair_keys.batch;
end;
$$;
select tidegate_internal.allow('fair_keys', '{reader,api,worker,admin}');
