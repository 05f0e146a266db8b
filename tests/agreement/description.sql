-- $1: the requests of a sequence, in the order of their submission. $2: the sequence, as its keys and references name it.
with mine as (
  select r.*, i.number - 1 as number, format('reference %s %s', $2, i.number - 1) as own_reference
  from unnest($1::uuid[]) with ordinality as i(id, number)
  join tidegate.request as r using (id)
), waiting as (
  select 'readiness' as queue, m.msg_id, m.vt, m.message ->> 'id' as id from pgmq.q_readiness as m
  union all
  select 'tx', m.msg_id, m.vt, m.message ->> 'id' from pgmq.q_tx as m
), place as (
  select
    m.queue, m.msg_id, r.number,
    case when m.vt <= clock_timestamp() then 'free' else 'later' end
      || case when r.queue = m.queue and r.msg_id = m.msg_id and r.lease is null then '' else ' stray' end as hold
  from waiting as m
  left join mine as r on r.id::text = m.id
  union all
  select l.queue, l.msg_id, r.number, case when l.in_force then 'held' else 'lapsed' end
  from tidegate.leased_request as l
  left join mine as r on r.id = l.id
)
select format(
  '%s %s executed %s checks %s attempts %s parts %s early %s late %s awaited %s: %s',
  r.number, r.req_status,
  (select coalesce(tidegate.executed(q), '-') from tidegate.request as q where q.id = r.id),
  r.readiness_attempt, r.tx_attempt,
  (select count(*) from tidegate.response_part as p where p.request_id = r.id),
  count(i.id) filter (where not i.late), count(i.id) filter (where i.late),
  (select count(*) = 1 from tidegate.awaiting_response as a where a.request_id = r.id)::text,
  (
    select string_agg(e.cause, ' ' order by e.transition_no)
      || case
        when (r.transition_no, r.req_status, r.cause) is distinct from (
          count(*), (array_agg(e.to_status order by e.transition_no desc))[1],
          (array_agg(e.cause order by e.transition_no desc))[1]
        ) then ' does not replay'
        else ''
      end
    from tidegate.request_event as e
    where e.request_id = r.id
  )
)
from mine as r
left join tidegate.response_inbox as i on i.request_id = r.id or (i.request_id is null and i.reference = r.own_reference)
group by r.number, r.id, r.req_status, r.readiness_attempt, r.tx_attempt, r.transition_no, r.cause

union all
select format(
  '%s %s%s %s:%s', g.queue, g.state, case when g.forced then ' forced' else '' end, count(p.queue),
  string_agg(format(' %s:%s', coalesce(p.number::text, '?'), p.hold), '' order by p.msg_id) filter (where p.msg_id is not null)
)
from tidegate.gate as g
left join place as p on p.queue = g.queue
group by g.queue, g.state, g.forced

union all
select format(
  '%s %s %s%s%s', d.scope, substring(d.key from ' (.*)$'), coalesce(r.number::text, '?'),
  case when d.expires_at <= clock_timestamp() then ' due' else '' end,
  case when tidegate_internal.dedup_target(d, clock_timestamp()) is null then ' free' else '' end
)
from tidegate.dedup as d
left join mine as r on r.id = d.request_id
where d.key like $2 || ' %'
