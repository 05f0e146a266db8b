-- gate_overview: The state and current depth of all gates, or of one by name; those of queues first.
--
-- `depth` is exact up to a hundred thousand. `name` is the gate's: its queue, 'kind direct', 'submitter ann'.
create or replace function tidegate.gate_overview(name text default null)
  returns table (
    name text, queue text, kind text, submitter text, state text, mode text, depth bigint, high_water integer,
    low_water integer, forced boolean, epoch bigint, depth_at_change bigint, changed_at timestamptz
  )
  language sql volatile security definer as $$
  select
    g.name, g.queue, g.kind, g.submitter, g.state, g.mode, tidegate_internal.gate_depth(g, 100000), g.high_water,
    g.low_water, g.forced, g.epoch, g.depth, g.changed_at
  from tidegate.gate as g
  where g.name = coalesce($1, g.name)
  order by g.queue is null, g.name;
$$;
select tidegate_internal.allow('gate_overview', '{reader,api,worker,admin}');
