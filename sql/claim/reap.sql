-- reap: Ends a lease that has run out, and takes up to `p_limit` of its requests for a claim.
--
-- One claim, the oldest that can be reaped: its row first, then the rows of its requests in the order of their ids. A
-- row that a late settle or an operator has locked stays under the lease, and is not waited for: all claims would wait
-- with this one. A request in flight goes back to processing (recovered); or it ends, when its outcome must stay
-- unknown (at most once), its attempts are used up, its deadline has passed or its cancel was requested. Requests that
-- the claim does not take are put back. Returns the numbers and ids of those taken, in the order of the numbers, and
-- `reaped`: whether there was anything to reap.
create or replace function tidegate_internal.reap(
  p_queue text, p_limit integer, p_now timestamptz, p_kinds text[],
  out msg_ids bigint[], out ids uuid[], out reaped boolean
)
  language plpgsql
as $$
declare
  v_claim tidegate.claim;
  v_held  record;
begin
  reaped := false;
  for v_claim in
    select c.*
    from tidegate.claim as c
    where c.queue = p_queue and c.until > tidegate_internal.lease_watermark(p_queue) and c.until <= p_now
    order by c.until
    limit 20
  loop
    -- The exception rolls back the row locks of a claim that has nothing to reap: with some of them kept, no other
    -- rows may be locked.
    begin
      v_held := tidegate_internal.lock_lapsed(v_claim.token, v_claim.part, p_now);
      if v_held.held = 0 then
        raise exception using errcode = 'TG999';
      end if;
    exception when sqlstate 'TG999' then
      -- The claim may hold nothing any more.
      delete from tidegate.claim as c
      where (c.token, c.part) in (
        select e.token, e.part
        from tidegate.claim as e
        where e.token = v_claim.token and e.part = v_claim.part and not exists (
          select from unnest(e.ids) as i(id) join tidegate.request as r on r.id = any(array[i.id]) and r.lease = e.token
        )
        for update skip locked
      );
      continue;
    end;
    reaped := true;
    exit;
  end loop;
  if not reaped then
    return;
  end if;

  update tidegate.request as r set previous_status = r.req_status, lease = null where r.id = any(v_held.freed);
  update tidegate.request as r
  set req_status = 'processing', transition_no = r.transition_no + 1, cause = 'recovered', lease = null
  where r.id = any(v_held.lost);
  perform tidegate_internal.end_unclaimable(v_held.ended, v_held.fates);

  select array_agg(t.msg_id order by t.msg_id), array_agg(t.id order by t.msg_id) into msg_ids, ids
  from (
    select h.msg_id, h.id
    from unnest(v_held.msg_ids, v_held.ids, v_held.kinds) as h(msg_id, id, kind)
    where p_kinds is null or h.kind = any(p_kinds)
    order by h.msg_id
    limit p_limit
  ) as t;
  perform tidegate_internal.put_back(p_queue, array_agg(h.msg_id), array_agg(h.id))
  from unnest(v_held.msg_ids, v_held.ids) as h(msg_id, id)
  where h.msg_id <> all(coalesce(msg_ids, '{}'));
end;
$$;
select tidegate_internal.plan_along_indexes('reap');
