-- tidegate.gate_copy: for API nodes: each gate that submissions come to, with the room behind it
--
-- One row a queue that is some kind's first; `kinds` are those. `drain_rate` is messages per second as `eta_seconds`
-- reckons them: a tx queue's rate, a readiness queue's concurrency at a second a check; null: no limit, 0: stopped or
-- paused. `depth` is exact below the high-water mark, as far as some thousands. Nodes ask at most once a second, and only
-- while there are submissions.
create or replace function tidegate.gate_copy()
  returns table (queue text, kinds text[], state text, high_water integer, depth bigint, drain_rate numeric)
  language sql
  stable
  security definer
  set search_path = pg_catalog, pg_temp
as $$
  select
    g.queue, k.kinds, g.state, g.high_water, tidegate.queue_depth(g.queue, least(g.high_water, 9999) + 1),
    case when q.paused then 0 when q.stage = 'tx' then q.per_seconds else q.max_concurrency end
  from tidegate.gate as g
  join tidegate.queue as q on q.name = g.queue
  join (
    select coalesce(k.readiness_queue, k.tx_queue) as queue, array_agg(k.name) as kinds from tidegate.kind as k group by 1
  ) as k on k.queue = g.queue;
$$;
