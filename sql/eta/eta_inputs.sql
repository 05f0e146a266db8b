-- eta_inputs: what the ETA of a kind's requests depends on besides their place and position
--
-- `p_queue` is the queue the request is in (rows keep theirs when a kind is pointed elsewhere); `p_counted` says how
-- exactly the tx queue is counted (see `waiting_before`). A paused queue counts as
-- stopped, and so does one whose calls for this kind a breaker holds back: its limit is 0.
--
-- A query, which PostgreSQL puts in place of the call: a submission asks together with all else that it wants to know.
create or replace function tidegate_internal.eta_inputs(
  p_kind    tidegate.kind,
  p_queue   text,
  p_status  tidegate.request_status,
  p_counted integer
)
  returns setof tidegate.eta_terms
  language sql
  stable
  rows 1
begin atomic
  select
    case when p_status = 'queued' then tidegate_internal.waiting_before((p_kind).tx_queue, null, p_counted) end,
    case when t.paused or (b.tx and tidegate.breaker_bars((p_kind).name, 'tx')) then 0 else t.per_seconds end,
    case when r.paused or (b.readiness and tidegate.breaker_bars((p_kind).name, 'readiness')) then 0 else r.max_concurrency end,
    s.safety_margin, s.min_seconds, s.max_seconds, s.jitter
  from tidegate.setting as s
  left join tidegate.queue as t
    on t.name = case when p_status = 'queued' then (p_kind).tx_queue else coalesce(p_queue, (p_kind).tx_queue) end
  left join tidegate.queue as r
    on r.name = case when p_status = 'queued' then coalesce(p_queue, (p_kind).readiness_queue) end
  cross join lateral (
    select
      exists (select from tidegate.breaker as o where o.kind = (p_kind).name and o.stage = 'tx' and o.state <> 'closed') as tx,
      exists (
        select from tidegate.breaker as o where o.kind = (p_kind).name and o.stage = 'readiness' and o.state <> 'closed'
      ) as readiness
  ) as b;
end;

comment on function tidegate_internal.eta_inputs is
  'The limits, the size of the tx queue and the settings that an ETA depends on.';
