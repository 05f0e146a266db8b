-- extend: Extends leases that have not run out, to lease_for from now; returns the extended ones.
--
-- A missing one has run out or was taken over: stop its call. Commit synchronously. The other requests of the claim
-- become a part of their own, with the old end.
create or replace function tidegate.extend(leases tidegate.lease[], lease_for interval)
  returns setof tidegate.lease language plpgsql security definer as $$
declare
  v_claim tidegate.claim;
  v_kept  uuid[];
  v_rest  uuid[];
  v_done  uuid[] := '{}';
begin
  perform tidegate_internal.require_lease_time(lease_for);
  -- With the claims' lock, shared: a claim that still saw the old lease, and saw it run out, would let one too many in.
  perform pg_advisory_xact_lock_shared(tidegate.queue_lock_key(q.name, 'concurrency'))
  from tidegate.queue as q
  where q.name = tidegate_internal.lease_queue(leases) and q.max_concurrency is not null;

  -- Another extension may split a claim while this one waits for it: then the next read finds the new part.
  for v_look in 1 .. 3 loop
    for v_claim in
      select c.*
      from tidegate.claim as c
      where c.token = any(array(select l.token from unnest(leases) as l where l.id <> all(v_done)))
      order by c.token, c.part
      for update
    loop
      -- A request that has left the claim meanwhile is in neither part.
      select
        array_agg(r.id order by i.place) filter (where l.id is not null),
        array_agg(r.id order by i.place) filter (where l.id is null)
      into v_kept, v_rest
      from unnest(v_claim.ids) with ordinality as i(id, place)
      join tidegate.request as r on r.id = any(array[i.id]) and r.lease = v_claim.token
      left join (
        select distinct l.id from unnest(leases) as l where l.token = v_claim.token and l.queue = v_claim.queue
      ) as l on l.id = i.id;
      continue when v_kept is null or v_kept <@ v_done or v_claim.until <= tidegate.clock();
      if v_rest is not null then
        insert into tidegate.claim (token, part, queue, worker, claimed_at, until, lease_ms, ids)
        select
          v_claim.token, max(c.part) + 1, v_claim.queue, v_claim.worker, v_claim.claimed_at, v_claim.until,
          v_claim.lease_ms, v_rest
        from tidegate.claim as c
        where c.token = v_claim.token;
      end if;
      update tidegate.claim as c
      set until = tidegate.clock() + lease_for, lease_ms = ceil(extract(epoch from lease_for) * 1000)::bigint,
        ids = v_kept
      where c.token = v_claim.token and c.part = v_claim.part;
      v_done := v_done || v_kept;
      return query select v_claim.queue, v_claim.token, k.id from unnest(v_kept) as k(id);
    end loop;
    exit when not exists (
      select from unnest(leases) as l
      join tidegate.request as r on r.id = any(array[l.id]) and r.lease = l.token
      where l.id <> all(v_done)
    );
  end loop;
end;
$$;
select tidegate_internal.allow('extend', '{worker,admin}');
select tidegate_internal.plan_along_indexes('extend');
