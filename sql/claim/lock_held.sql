-- lock_held: Locks the requests that the given leases still hold, in the order of their ids.
--
-- Returns, in the same order, the requests, their kinds, their numbers in the queue, the place of each lease in the
-- array given (from 1), its token, and when it was claimed. Nulls when none is held any more. A row that the reaper or
-- another settle has locked is waited for, and then its token is read again. Raises TG007 when the leases name
-- more than one queue.
--
-- Its callers set the planner settings: once, because a setting costs as much as a small query.
create or replace function tidegate_internal.lock_held(
  p_leases tidegate.lease[],
  out queue text, out msg_ids bigint[], out ids uuid[], out kinds text[], out places bigint[],
  out tokens bigint[], out claimed timestamptz[]
)
  language plpgsql as $$
begin
  lock_held.queue := tidegate_internal.lease_queue(p_leases);
  select
    array_agg(h.msg_id), array_agg(h.id), array_agg(h.kind), array_agg(h.place), array_agg(h.token),
    array_agg(h.claimed_at)
  into msg_ids, ids, kinds, places, tokens, claimed
  from (
    select r.msg_id, r.id, r.kind, l.place, l.token, c.claimed_at
    from unnest(p_leases) with ordinality as l(queue, token, id, place)
    join tidegate.request as r on r.id = any(array[l.id]) and r.lease = l.token and r.queue = l.queue
    -- A claim has one time, whatever parts it has.
    left join lateral (
      select c.claimed_at from tidegate.claim as c where c.token = l.token order by c.part limit 1
    ) as c on true
    order by l.id
    for update of r
  ) as h;
end;
$$;
