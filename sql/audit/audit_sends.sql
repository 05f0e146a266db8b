-- audit_sends: The sends of a request, each with its policy and durations in milliseconds.
--
-- `place` counts all steps from 1. A call takes at most `call_max`: its timeout, and for every attempt after the first
-- the timeout once more, for the search for an earlier receipt. `in_call`: the time in flight; of a send that was lost,
-- or ended from outside, no more than a call takes; nothing of one that was given back. `backoff`: of the wait for a
-- retry, as much as the policy's backoff may have been; the downstream may have asked for more. `policy` is null from
-- before there were versions.
create or replace function tidegate_internal.audit_sends(p_request tidegate.request, p_now timestamptz)
  returns table (
    place bigint, attempt integer, left_by text, in_flight numeric, call_max numeric, in_call numeric, waited numeric,
    backoff numeric, attempts_max integer, w_retry numeric, policy tidegate.policy_in_force
  )
  language sql stable as $$
  with sent as (
    select e.*, tidegate_internal.policy_at(p_request.kind, 'tx', e.at) as policy
    from (
      select
        v.to_status, v.at, v.attempt, row_number() over life as place,
        lead(v.cause) over life as left_by, lead(v.at) over life as left_at, lead(v.at, 2) over life as next_at
      from tidegate.request_event as v
      where v.request_id = p_request.id
      window life as (order by v.transition_no)
    ) as e
    where e.to_status = 'tx_in_flight'
  ), judged as (
    select
      s.*, (s.policy).since <= s.at as on_record,
      -- A learned timeout changes without a version, and stays below the declared one.
      greatest((s.policy).timeout_ms, case when p.timeout_mode in ('percentile', 'adaptive')
        then p.timeout_ms end) as timeout_ms,
      -- The claim has read its policy up to a second earlier.
      greatest((s.policy).attempts, b.attempts) + p_request.tx_unsent as attempts_max,
      greatest(extract(epoch from coalesce(s.left_at, p_now) - s.at) * 1000, 0) as in_flight,
      case when s.left_by = 'send_retried'
        then greatest(extract(epoch from coalesce(s.next_at, p_now) - s.left_at) * 1000, 0)
      end as waited,
      extract(epoch from tidegate_internal.backoff(
        s.attempt, (s.policy).base_ms, (s.policy).factor, (s.policy).cap_ms, (s.policy).jitter_ms, 1
      )) * 1000 as backoff_max
    from sent as s
    cross join lateral tidegate_internal.policy_at(p_request.kind, 'tx', s.at - interval '1 second') as b
    join tidegate.policy as p on p.kind = p_request.kind and p.stage = 'tx'
  )
  select
    j.place, j.attempt, j.left_by, round(j.in_flight), c.call_max,
    round(case
      when j.left_by = 'released' then 0
      when j.left_by in ('receipt', 'send_retried', 'rejected') then j.in_flight
      else least(j.in_flight, c.call_max)
    end),
    round(j.waited), case when j.waited is not null then round(least(j.waited, j.backoff_max)) end,
    case when j.on_record then j.attempts_max end,
    case when j.on_record then tidegate.w_retry_ms(
      j.attempts_max, j.timeout_ms, (j.policy).base_ms, (j.policy).factor, (j.policy).cap_ms, (j.policy).jitter_ms
    ) end,
    case when j.on_record then j.policy end
  from judged as j
  cross join lateral (select j.timeout_ms * case when j.attempt > 1 then 2 else 1 end as call_max) as c;
$$;
