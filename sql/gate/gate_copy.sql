-- gate_copy: For API nodes: every gate, the kinds that it admits, and the figures that a Retry-After is computed from.
--
-- One row per gate. `kinds` are those whose new requests come to it, `passed_by` those that come to it later; a
-- submitter's gate names none, because it concerns all of them. `drain_rate` is messages per second by `gate_rate`; for
-- a kind's or submitter's gate that of the slowest queue, in the gate's share of it. `depth` is exact below the high
-- mark, up to some thousands. `forced_wait` and `still_wait` are the least Retry-After of a refusal, in seconds: while
-- the gate is forced, and while nothing moves in its queue or too much there is snoozed. `nodes`: how many API nodes
-- listen now. `keyed` are all kinds that make idempotency keys: their requests may be replays.
create or replace function tidegate.gate_copy()
  returns table (
    name text, queue text, kind text, submitter text, kinds text[], passed_by text[], state text, forced boolean,
    high_water integer, low_water integer, depth bigint, epoch bigint, changed_at timestamptz, drain_rate numeric,
    forced_wait integer, still_wait integer, safety_margin numeric, min_seconds integer, max_seconds integer,
    jitter numeric, nodes bigint, keyed text[]
  )
  language plpgsql volatile security definer as $$
begin
  return query
    -- Once for each queue, however many quotas there are.
    with served as materialized (
      select
        q.name, q as queue, p.still_since, c.is_capped,
        case when c.is_capped then tidegate_internal.gate_rate(null, q, 0) end as rate,
        case when c.is_capped then tidegate_internal.queue_depth(q.name) end as depth
      from tidegate.queue as q
      left join tidegate.queue_pace as p
        on p.queue = q.name and p.observed_at > tidegate.clock() - interval '30 seconds'
      cross join (select exists (select from tidegate.gate as g where g.queue is null) as is_capped) as c
    ), slowest as materialized (
      -- Of the queues of a kind, and, for submitters, of all kinds.
      select distinct on (k.name) k.name as kind, s.rate, s.depth, s.still_since
      from (select k.name, k.tx_queue, k.readiness_queue from tidegate.kind as k union all select null, null, null) as k
      join served as s on s.is_capped and (k.name is null or s.name in (k.tx_queue, k.readiness_queue))
      where k.name is not null
        or exists (select from tidegate.kind as o where s.name in (o.tx_queue, o.readiness_queue))
      order by k.name, s.rate nulls last
    )
    select
      g.name, g.queue, g.kind, g.submitter,
      array(
        select k.name from tidegate.kind as k
        where case when g.queue is not null then coalesce(k.readiness_queue, k.tx_queue) = g.queue
          else k.name = g.kind end
      ),
      array(select k.name from tidegate.kind as k where k.tx_queue = g.queue and k.readiness_queue <> g.queue),
      g.state, g.forced, g.high_water, g.low_water, d.depth, g.epoch, g.changed_at,
      case
        when g.queue is not null then tidegate_internal.gate_rate(g, s.queue, d.depth)
        else c.rate * least(1, d.depth / nullif(c.depth, 0)::numeric)
      end,
      case when g.forced then tidegate.response_backoff_seconds(tidegate.clock() - g.changed_at) end,
      greatest(
        (select tidegate.response_backoff_seconds(tidegate.clock() - o.since)
         from coalesce(s.still_since, c.still_since) as o(since) where o.since is not null),
        case when g.queue is not null then tidegate_internal.later_seconds(g.queue, d.depth, d.depth - g.low_water) end
      ),
      coalesce(t.safety_margin, 0), greatest(t.min_seconds, 1), t.max_seconds, t.jitter, n.nodes,
      array(select k.name from tidegate.kind as k where k.key_mode <> 'caller')
    from tidegate.gate as g
    cross join tidegate.setting as t
    cross join (
      select count(*) as nodes
      from pg_stat_activity as a
      where a.datname = current_database() and a.application_name = 'tidegate-api-listener'
    ) as n
    cross join lateral (select tidegate_internal.gate_depth(g, least(g.high_water, 9999) + 1) as depth) as d
    left join served as s on s.name = g.queue
    left join slowest as c on g.queue is null and c.kind is not distinct from g.kind;
end;
$$;
select tidegate_internal.allow('gate_copy', '{api,admin}');
