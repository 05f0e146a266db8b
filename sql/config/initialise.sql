-- initialise: Makes the queues and kinds of an example, if one is named, and sets initial limits, gates and nominal
-- times where none are set; returns the settings that it made.
--
-- Gates 2000/1000 (the deepest queue whose ETA stays below max_seconds at this rate), D = 10 per second, C = 50, R = 2
-- s, P = 2 s (proof, direct) or 4 s (decrypt), T = 100 ms, retention 30 days, of requests and of events. Leaves
-- settings that exist as they are.
--
-- `example` makes queues and kinds first: `relayer` has the queues `readiness` and `tx` and the kinds `public_decrypt`,
-- `user_decrypt`, `input_proof` and `direct`. Existing ones stay as they are. `gates` names other marks: `seed` has
-- 30/15, those of the document that gates come from. Raises TG007 for an unknown example, or unknown gates.
create or replace function tidegate.initialise(example text default null, gates text default null)
  returns table (subject text, name text, value text) language plpgsql security definer
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_first  boolean;
  v_marks  integer[];
  -- Those that were there before.
  v_queues text[];
  v_kinds  text[];
begin
  v_marks := case when initialise.gates is null then '{2000,1000}' when initialise.gates = 'seed' then '{30,15}' end;
  if v_marks is null then
    raise exception using
      errcode = 'TG007', message = format('there are no gates "%s"; there are: seed', left(initialise.gates, 100));
  end if;
  -- First, because configuration is locked in the order setting, queue, gate, kind, policy.
  update tidegate.setting as s set initialised_at = tidegate.clock() where s.initialised_at is null;
  v_first := found;
  v_queues := array(select q.name from tidegate.queue as q);
  v_kinds := array(select k.name from tidegate.kind as k);
  if initialise.example = 'relayer' then
    return query
      insert into tidegate.queue as q (name, stage) values ('readiness', 'readiness'), ('tx', 'tx')
      on conflict do nothing
      returning 'queue ' || q.name, 'stage', q.stage::text;
    return query
      insert into tidegate.kind as k (
        name, flow, readiness_queue, tx_queue, response_threshold, key_after_unknown
      ) values
        -- A repeated decryption does no harm.
        ('public_decrypt', 'decrypt', 'readiness', 'tx', 1, 'free'),
        ('user_decrypt',   'decrypt', 'readiness', 'tx', 3, 'free'),
        ('input_proof',    'proof',   null,        'tx', 1, 'window'),
        ('direct',         'direct',  null,        'tx', 1, 'window')
      on conflict do nothing
      returning 'kind ' || k.name, 'flow', k.flow::text;
  elsif initialise.example is not null then
    raise exception using
      errcode = 'TG007', message = format('there is no example "%s"; there is: relayer', left(initialise.example, 100));
  end if;

  -- A null limit is a choice ("no limit"), so limits and gates are written once: the first time, or where they are new.
  return query
    update tidegate.queue as q set per_seconds = 10
    where q.stage = 'tx' and q.per_seconds is null and (v_first or q.name <> all(v_queues))
    returning 'queue ' || q.name, 'per_seconds', q.per_seconds::text;
  return query
    update tidegate.queue as q set max_concurrency = 50
    where q.stage = 'readiness' and q.max_concurrency is null and (v_first or q.name <> all(v_queues))
    returning 'queue ' || q.name, 'max_concurrency', q.max_concurrency::text;
  return query
    update tidegate.gate as g set high_water = v_marks[1], low_water = v_marks[2]
    where g.queue is not null and (g.high_water, g.low_water) = (30, 15) and (v_first or g.queue <> all(v_queues))
    returning 'gate ' || g.queue, 'high_water/low_water', g.high_water || '/' || g.low_water;
  return query
    update tidegate.kind as k set retention = greatest(interval '720 hours', p.dedup_window)
    from tidegate.policy as p
    where p.kind = k.name and p.stage = 'tx' and k.retention is null and (v_first or k.name <> all(v_kinds))
    returning 'kind ' || k.name, 'retention', tidegate.config_value('interval', 1, k.retention::text);
  if v_first then
    return query
      update tidegate.setting as s set event_retention = interval '720 hours' where s.event_retention is null
      returning 'setting', 'event_retention', tidegate.config_value('interval', 1, s.event_retention::text);
  end if;

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
select tidegate_internal.allow('initialise', '{admin}');
