-- lock_held: locks the requests that the given leases still hold, in the order of their ids
--
-- Returns, in the same order, the requests, their numbers in the queue, the place of each lease in the array given (from 1), and
-- when each was claimed; and the tokens that are among them, with the number of requests of each. Nulls when none is held any
-- more. A row that the reaper or another settle has locked is waited for, and then its token is looked at again. Raises TG007
-- when the leases name more than one queue.
create or replace function tidegate_internal.lock_held(
  p_leases    tidegate.lease[],
  out queue   text,
  out msg_ids bigint[],
  out ids     uuid[],
  out places  bigint[],
  out claimed timestamptz[],
  out tokens  bigint[],
  out counts  bigint[]
)
  language plpgsql
  -- A plan that is kept may have been made for empty tables: joined as written, along indexes, it serves full ones, too.
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_mergejoin = off
  set join_collapse_limit = 1
  set search_path = pg_catalog, pg_temp
as $$
begin
  lock_held.queue := tidegate_internal.lease_queue(p_leases);
  with held as materialized (
    select r.id, r.msg_id, l.place, l.token
    from unnest(p_leases) with ordinality as l(queue, token, id, place)
    join tidegate.request as r on r.id = l.id and r.lease = l.token and r.queue = l.queue
    order by r.id
    for update of r
  ), claims as materialized (
    -- A claim has one time, whatever parts it has.
    select h.token, count(*) as requests, (
      select c.claimed_at from tidegate.claim as c where c.token = h.token order by c.part limit 1
    ) as claimed_at
    from held as h
    group by h.token
  )
  select
    array_agg(h.msg_id), array_agg(h.id), array_agg(h.place), array_agg(c.claimed_at),
    (select array_agg(o.token) from claims as o), (select array_agg(o.requests) from claims as o)
  into msg_ids, ids, places, claimed, tokens, counts
  from (select held.* from held order by held.id) as h
  join claims as c on c.token = h.token;
end;
$$;

comment on function tidegate_internal.lock_held is 'Locks the requests that the given leases still hold.';
