-- extend: prolongs leases that have not run out, to `lease_for` from now
--
-- Returns the leases prolonged. A missing one has run out or was taken over: stop its call. Commit synchronously.
create or replace function tidegate.extend(leases tidegate.lease[], lease_for interval)
  returns setof tidegate.lease
  language plpgsql
  security definer
  -- A plan that is kept may have been made for empty tables: joined as written, along indexes, it serves full ones, too.
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_mergejoin = off
  set join_collapse_limit = 1
  set search_path = pg_catalog, pg_temp
  set jit = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_held record;
  v_now  timestamptz;
begin
  perform tidegate_internal.require_lease_time(lease_for);
  -- With the claims' lock, shared: a claim that still saw the old lease, and saw it run out, would let one too many in.
  perform pg_advisory_xact_lock_shared(tidegate.queue_lock_key(q.name, 'concurrency'))
  from tidegate.queue as q
  where q.name = (select min(l.queue) from unnest(leases) as l) and q.max_concurrency is not null;
  select * into v_held from tidegate_internal.lock_held(leases);
  if v_held.ids is null then
    return;
  end if;

  v_now := tidegate.clock();
  case v_held.queue
    -- each queue
    when 'QUEUE' then
      return query
        update pgmq.q_QUEUE as m
        set vt = v_now + lease_for,
            headers = m.headers || jsonb_build_object('lease_ms', ceil(extract(epoch from lease_for) * 1000)::bigint)
        from unnest(leases) as l(queue, msg_id, nonce)
        where m.msg_id = l.msg_id and m.headers ->> 'nonce' = l.nonce::text and m.vt > v_now
        returning l.queue, l.msg_id, l.nonce;
    -- end of each queue
    else perform tidegate_internal.refuse_queue(v_held.queue);
  end case;
end;
$$;

comment on function tidegate.extend is
  'Prolongs leases that have not run out, to lease_for from now; returns those prolonged.';
select tidegate_internal.allow('extend', '{worker,admin}');
