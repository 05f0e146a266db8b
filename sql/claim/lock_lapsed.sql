-- lock_lapsed: Locks a claim that has run out and the rows that name it, and decides the fate of each request.
--
-- Rows that are locked already, and a locked claim, are skipped. The claim's row is deleted, except for skipped rows.
-- Returns how many rows it has locked (`held`), the requests that wait again (`ids`, in the order of their numbers,
-- with their kinds), those of them that were in flight (`lost`), those that end, and how, and those that only lose
-- their lease (`freed`).
create or replace function tidegate_internal.lock_lapsed(
  p_token bigint, p_part integer, p_now timestamptz,
  out held bigint, out ended uuid[], out fates text[], out lost uuid[], out freed uuid[],
  out ids uuid[], out msg_ids bigint[], out kinds text[]
)
  language plpgsql as $$
declare
  v_claim tidegate.claim;
  v_all   uuid[];
  v_rest  uuid[];
begin
  held := 0;
  select * into v_claim
  from tidegate.claim as c
  where c.token = p_token and c.part = p_part and c.until <= p_now
  for update skip locked;
  if not found then
    return;
  end if;

  select
    count(*),
    array_agg(f.id) filter (where f.fate in ('unknown', 'exhausted', 'expired', 'cancelled')),
    array_agg(f.fate) filter (where f.fate in ('unknown', 'exhausted', 'expired', 'cancelled')),
    array_agg(f.id) filter (where f.fate = 'lost'), array_agg(f.id) filter (where f.fate in ('waits', 'none')),
    array_agg(f.id order by f.msg_id) filter (where f.fate in ('lost', 'waits')),
    array_agg(f.msg_id order by f.msg_id) filter (where f.fate in ('lost', 'waits')),
    array_agg(f.kind order by f.msg_id) filter (where f.fate in ('lost', 'waits')), array_agg(f.id)
  into held, ended, fates, lost, freed, ids, msg_ids, kinds, v_all
  from (
    select
      h.id, h.msg_id, h.kind,
      case
        when h.req_status in ('queued', 'processing') then 'waits'
        -- Ended by hand.
        when h.req_status <> 'tx_in_flight' then 'none'
        when p.semantics = 'at_most_once'
          -- The lost send goes by the policy that it was begun under.
          or p.since > h.tx_in_flight_at
            and (tidegate_internal.policy_at(h.kind, 'tx', h.tx_in_flight_at)).semantics = 'at_most_once' then 'unknown'
        when h.tx_attempt - h.tx_unsent > p.attempts then 'exhausted'
        when h.deadline_at <= p_now then 'expired'
        when h.cancel_requested_at is not null then 'cancelled'
        else 'lost'
      end as fate
    from (
      select r.id, r.msg_id, r.kind, r.req_status, r.tx_in_flight_at, r.tx_attempt, r.tx_unsent, r.deadline_at,
        r.cancel_requested_at
      from unnest(v_claim.ids) as i(id)
      join tidegate.request as r on r.id = any(array[i.id]) and r.lease = v_claim.token
      order by i.id
      for update of r skip locked
    ) as h
    left join tidegate.policy_in_force as p on p.kind = h.kind and p.stage = 'tx'
  ) as f;

  select array_agg(r.id order by i.place) into v_rest
  from unnest(v_claim.ids) with ordinality as i(id, place)
  join tidegate.request as r on r.id = any(array[i.id]) and r.lease = v_claim.token
  where r.id <> all(coalesce(v_all, '{}'));
  if v_rest is null then
    delete from tidegate.claim as c where c.token = p_token and c.part = p_part;
  else
    update tidegate.claim as c set ids = v_rest where c.token = p_token and c.part = p_part;
  end if;
end;
$$;
select tidegate_internal.plan_along_indexes('lock_lapsed');
