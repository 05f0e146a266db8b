-- tidegate.initialise: writes the starter set of limits, gates and nominal times, once
--
-- Gates 2000/1000 (the deepest queue whose ETA stays below max_seconds at this rate), D = 10 per second, C = 50,
-- R = 2 s, P = 2 s (proof, direct) or 4 s (decrypt), T = 100 ms, M = 0.2, retention 30 days, of requests and of events. Sets
-- only what is not set yet, on the built-in queues and on kinds; returns what it set, nothing when all was set before.
create or replace function tidegate.initialise()
  returns table (subject text, name text, value text)
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
  set jit = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_first boolean;
begin
  update tidegate.setting as s set initialised_at = clock_timestamp() where s.initialised_at is null;
  v_first := found;

  -- A null limit is a choice ("no limit"), so limits and gates are written the first time only.
  if v_first then
    return query
      update tidegate.queue as q set per_seconds = 10 where q.name = 'tx' and q.per_seconds is null
      returning 'queue tx', 'per_seconds', q.per_seconds::text;
    return query
      update tidegate.queue as q set max_concurrency = 50 where q.name = 'readiness' and q.max_concurrency is null
      returning 'queue readiness', 'max_concurrency', q.max_concurrency::text;
    return query
      update tidegate.gate as g set high_water = 2000, low_water = 1000
      where g.queue in ('readiness', 'tx') and (g.high_water, g.low_water) = (30, 15)
      returning 'gate ' || g.queue, 'high_water/low_water', '2000/1000';
    return query
      update tidegate.kind as k set retention = greatest(interval '30 days', p.dedup_window)
      from tidegate.policy as p
      where p.kind = k.name and p.stage = 'tx' and k.retention is null
      returning 'kind ' || k.name, 'retention', k.retention::text;
    return query
      update tidegate.setting as s set event_retention = interval '30 days' where s.event_retention is null
      returning 'setting', 'event_retention', s.event_retention::text;
  end if;

  return query
    update tidegate.setting as s set safety_margin = 0.2 where s.safety_margin is null
    returning 'setting', 'safety_margin', s.safety_margin::text;
  return query
    update tidegate.kind as k set readiness_ms = 2000 where k.readiness_ms is null and k.flow = 'decrypt'
    returning 'kind ' || k.name, 'readiness_ms', k.readiness_ms::text;
  return query
    update tidegate.kind as k set processing_ms = case k.flow when 'decrypt' then 4000 else 2000 end
    where k.processing_ms is null
    returning 'kind ' || k.name, 'processing_ms', k.processing_ms::text;
  return query
    update tidegate.kind as k set tx_confirmation_ms = 100 where k.tx_confirmation_ms is null
    returning 'kind ' || k.name, 'tx_confirmation_ms', k.tx_confirmation_ms::text;
end;
$$;
