-- contract_history: Completions and repeated sends among the newest 1000 requests of a kind, for contracts.
--
-- How many there are; how many completed more than once; how many were sent again; how many of those although their
-- policy of that time was at_most_once and the send before may have left: neither given back, nor settled as one that
-- had not left; and how many may have been executed after an earlier request that was submitted again as them, and may
-- have been, too. One request of each sort comes with it.
create or replace function tidegate_internal.contract_history(
  p_kind text,
  out requests bigint, out completed_twice bigint, out completed_id uuid, out sent_again bigint, out sent_twice bigint,
  out sent_id uuid, out key_again bigint, out key_id uuid
)
  language sql stable as $$
  select
    count(*), count(*) filter (where h.completed > 1), (array_agg(h.id) filter (where h.completed > 1))[1],
    count(*) filter (where h.again), count(*) filter (where h.twice), (array_agg(h.id) filter (where h.twice))[1],
    count(*) filter (where h.key_again), (array_agg(h.id) filter (where h.key_again))[1]
  from (
    select
      r.id, count(*) filter (where e.to_status = 'completed') as completed,
      bool_or(e.is_again and e.came_by <> 'released') as again,
      bool_or(
        case when e.is_again and e.came_by not in ('released', 'send_retried')
          then (tidegate_internal.policy_at(p_kind, 'tx', e.at)).semantics = 'at_most_once' end
      ) as twice,
      r.may_be_executed and exists (
        select
        from tidegate.redrive as v
        join tidegate.request as o on o.id = v.request_id and o.tx_attempt > o.tx_unsent
        where v.redriven_as = r.id
      ) as key_again
    from (
      select n.id, n.tx_attempt > n.tx_unsent as may_be_executed
      from tidegate.request as n
      -- Compared as pairs, so that no index but (kind, id) will do.
      where n.kind >= '' and (n.kind, n.id) <= (p_kind, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
        and (n.kind, n.id) >= (p_kind, '00000000-0000-0000-0000-000000000000')
      order by n.kind desc, n.id desc
      limit 1000
    ) as r
    left join lateral (
      select
        v.to_status, v.at, lag(v.cause) over life as came_by,
        v.to_status = 'tx_in_flight' and lag(v.from_status) over life = 'tx_in_flight' as is_again
      from tidegate.request_event as v
      where v.request_id = r.id
      window life as (order by v.transition_no)
    ) as e on true
    group by r.id, r.may_be_executed
  ) as h;
$$;
