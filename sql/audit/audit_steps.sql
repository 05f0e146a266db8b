-- audit_steps: The steps of a request's life, each checked against the bounds.
--
-- `finding` is null for a step within them; `remark` names what is legal but unusual: a hand edit, a
-- clock that was set back, a policy's version. A send is settled within the time of its call and a lease, or was lost;
-- each status is left by its deadline, give or take the sweep's second and another for its work.
create or replace function tidegate_internal.audit_steps(p_request tidegate.request, p_now timestamptz)
  returns table (
    transition_no integer, at timestamptz, from_status tidegate.request_status, to_status tidegate.request_status,
    cause text, attempt integer, worker text, detail jsonb, remark text, finding text
  )
  language sql stable as $$
  with terms as (
    select interval '2 seconds' as slack, 30000 as lease_ms
  ), life as (
    select v.*, row_number() over life as place, lag(v.at) over life as came_at
    from tidegate.request_event as v
    where v.request_id = p_request.id
    window life as (order by v.transition_no)
  ), sends as (select * from tidegate_internal.audit_sends(p_request, p_now)), checks as (
    -- As many as any version allowed while they went on.
    select max((c.in_force ->> 'attempts')::integer) + p_request.readiness_waits as attempts_max
    from life as l
    join tidegate.policy_change as c on c.kind = p_request.kind and c.stage = 'readiness' and c.at <= l.at
    cross join tidegate_internal.policy_at(p_request.kind, 'readiness', p_request.submitted_at) as b
    where l.from_status = 'queued' and c.version >= b.version and b.since <= p_request.submitted_at
  )
  select
    l.transition_no, l.at, l.from_status, l.to_status, l.cause, l.attempt, l.worker, l.detail,
    nullif(concat_ws('; ',
      case when l.cause in ('hand_edit', 'internal_error') then
        'by hand' || coalesce(', by ' || coalesce(l.detail ->> 'on_behalf_of', l.detail ->> 'session_user'), '') end,
      case when l.at < l.came_at then format('the clock was set back by %s', l.came_at - l.at) end,
      case when l.from_status = 'queued' then format('%s checks', l.attempt) end,
      case when b.place is not null then coalesce(format('by policy version %s: %s attempts of %s ms',
        (b.policy).version, (b.policy).attempts, (b.policy).timeout_ms),
        'by no policy version on record, so not judged') end,
      case when b.attempt > b.attempts_max then 'may search for a receipt, and not send' end,
      case when l.cause = 'recovered' then 'its sender was lost' end,
      case when retry.waited is not null then
        format('waited %s ms, at most %s ms of it the backoff, the rest for its turn', retry.waited, retry.backoff) end
    ), ''),
    nullif(concat_ws('; ',
      case when 'queued' in (l.from_status, l.to_status) and l.attempt > k.attempts_max then
        format('%s checks of at most %s', l.attempt, k.attempts_max) end,
      case when b.attempt > b.attempts_max + 1 then
        format('attempt %s of at most %s (policy version %s), and one search for a receipt', b.attempt, b.attempts_max,
          (b.policy).version) end,
      case when sent.in_call > sent.call_max + t.lease_ms then
        format('in flight for %s ms: its call takes at most %s ms, and its lease %s ms', sent.in_flight, sent.call_max,
          t.lease_ms) end,
      case when l.at > due.at + t.slack then format('%s after its %s of %s', l.at - due.at, due.what, due.at) end
    ), '')
  from life as l
  cross join terms as t
  cross join checks as k
  left join sends as b on b.place = l.place
  left join sends as sent on sent.place = l.place - 1 and (sent.policy).version is not null
  left join sends as retry on retry.place = l.place - 2 and retry.waited is not null and l.cause = 'claimed'
  left join lateral tidegate_internal.audit_due(p_request, l.from_status, l.came_at) as due on true
  order by l.place;
$$;
