-- tidegate.gate_copy: for API nodes: every gate, whom it lets in, and what it takes to say when to come back
--
-- One row a gate. `kinds` are those whose new requests come to it, `passed_by` those that come to it later; of a
-- submitter's gate all kinds. `drain_rate` is messages per second as `gate_rate` tells it, of a kind's or submitter's
-- gate that of the slowest queue, in the gate's share of it. `depth` is exact below the high-water mark, as far as some
-- thousands. `forced_wait` and `still_wait` are the least that a refused caller is told, in seconds: while the gate is held
-- by hand, and while nothing moves in its queue or too much there is put off. `nodes`: how many API nodes listen now.
-- An earlier version has other results.
drop function if exists tidegate.gate_copy();

create or replace function tidegate.gate_copy()
  returns table (
    name text, queue text, kind text, submitter text, kinds text[], passed_by text[], state text, forced boolean,
    high_water integer, low_water integer, depth bigint, epoch bigint, changed_at timestamptz, drain_rate numeric,
    forced_wait integer, still_wait integer, safety_margin numeric, min_seconds integer, max_seconds integer, jitter numeric,
    nodes bigint
  )
  language sql
  volatile
  security definer
  set search_path = pg_catalog, pg_temp
  set jit = off
as $$
  select
    g.name, g.queue, g.kind, g.submitter,
    array(
      select k.name from tidegate.kind as k
      where case when g.queue is not null then coalesce(k.readiness_queue, k.tx_queue) = g.queue
        when g.kind is not null then k.name = g.kind else true end
    ),
    array(select k.name from tidegate.kind as k where k.tx_queue = g.queue and k.readiness_queue <> g.queue),
    g.state, g.forced, g.high_water, g.low_water, d.depth, g.epoch, g.changed_at,
    case when g.queue is not null then q.rate else q.rate * least(1, d.depth / nullif(q.depth, 0)::numeric) end,
    case when g.forced then tidegate.response_backoff_seconds(clock_timestamp() - g.changed_at) end,
    greatest(
      case when q.still_since is not null then tidegate.response_backoff_seconds(clock_timestamp() - q.still_since) end,
      case when g.queue is not null then tidegate.later_seconds(g.queue, d.depth, d.depth - g.low_water) end
    ),
    s.safety_margin, greatest(s.min_seconds, 1), s.max_seconds, s.jitter,
    (
      select count(*) from pg_stat_activity as a
      where a.datname = current_database() and a.application_name = 'tidegate-api-listener'
    )
  from tidegate.gate as g
  cross join tidegate.setting as s
  cross join lateral (select tidegate.gate_depth(g, least(g.high_water, 9999) + 1) as depth) as d
  left join lateral (
    select
      tidegate.gate_rate(g, q, d.depth) as rate, p.still_since,
      case when g.queue is null then tidegate.queue_depth(q.name) end as depth
    from tidegate.queue as q
    left join tidegate.queue_pace as p on p.queue = q.name and p.observed_at > clock_timestamp() - interval '30 seconds'
    where q.name = g.queue or g.queue is null and exists (
      select from tidegate.kind as k
      where (k.name = g.kind or g.submitter is not null) and q.name in (k.tx_queue, k.readiness_queue)
    )
    order by 1 nulls last
    limit 1
  ) as q on true;
$$;
