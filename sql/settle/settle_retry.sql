-- settle_retry: tx_in_flight → processing, when a send is worth another attempt, or → failure when none is left;
-- returns the fate of each.
--
-- `errors` (one per lease): {"code", "message", "retryable"}; the policy's `retry_on` lists the codes that are worth
-- it. The message becomes visible again `after` (one per lease: the downstream's own wish, when the policy respects
-- it), or else after the policy's backoff. `may_have_left` (one per lease, null: true) means that the downstream may
-- have seen the request with this attempt; an attempt that certainly has not left uses none of the policy's. `took_ms`
-- and `hedges` (one per lease, or null): how long the call took, and how many more were made for it.
--
-- The policy is the one in force when the attempt began. Instead of being retried a request ends in failure: with
-- at_most_once semantics when it may have left (outcome_unknown); when the policy does not retry such errors (rejected,
-- or outcome_unknown when it may have left, now or with an earlier attempt); when its attempts are used up; when the
-- next attempt would begin later than its deadline, or that of the stage, which counts from the first attempt, less the
-- policy's margin; when its cancel was requested, but not after an effect that has failed. Errors of the class
-- `unauthorized` open the breaker. Returns the status of each request that was still held.
create or replace function tidegate_internal.settle_retry(
  leases tidegate.lease[], errors jsonb[], after interval[] default null,
  may_have_left boolean[] default null, took_ms integer[] default null,
  hedges integer[] default null
)
  returns table (id uuid, req_status tidegate.request_status) language plpgsql
as $$
declare
  v_held  record;
  v_now   timestamptz := tidegate.clock();
  v_moved record;
begin
  select * into v_held from tidegate_internal.lock_held(leases);
  if coalesce(cardinality(v_held.ids), 0) < cardinality(leases) then
    perform tidegate_internal.settle_late(leases, array(
      select not coalesce(may_have_left[place], true) from generate_subscripts(leases, 1) as place order by place
    ));
  end if;
  if v_held.ids is null then
    return;
  end if;

  with judged as materialized (
    select
      a.id, a.msg_id, a.place, a.token, a.claimed, a.class, a.retried, w.due as visible,
      a.tx_unsent + (not a.left_now)::integer as tx_unsent,
      case
        when 'at_most_once' in ((a.policy).semantics, a.semantics) and a.left then 'outcome_unknown'
        when not a.retried then case when a.left and a.class <> '4xx' then 'outcome_unknown' else 'rejected' end
        when a.left_now and a.tx_attempt - a.tx_unsent >= (a.policy).attempts then 'attempts_exhausted'
        when w.due is null then 'deadline_exceeded'
        when a.is_cancelled then 'cancelled'
        else 'send_retried'
      end as cause
    from (
      select
        r.id, r.tx_attempt, r.tx_unsent, r.deadline_at, h.msg_id, h.place, h.token, h.claimed, p.policy, t.first_at,
        l.left_now, l.left_now or r.tx_attempt - 1 > r.tx_unsent as left, f.semantics, e.class,
        -- Tidegate's own errors are no answer that a policy lists.
        -- What was executed can no longer be cancelled.
        r.cancel_requested_at is not null and e.code <> 'effect_failed' as is_cancelled,
        e.code in ('effect_failed', 'attempts_exhausted') or tidegate.is_retried((p.policy).retry_on, e.code) as retried
      from unnest(v_held.ids, v_held.msg_ids, v_held.places, v_held.tokens, v_held.claimed)
        as h(id, msg_id, place, token, claimed)
      cross join lateral (select * from tidegate.request as r where r.id = h.id offset 0) as r
      join tidegate.policy_in_force as f on f.kind = r.kind and f.stage = 'tx'
      cross join lateral (
        select case when f.since <= r.tx_in_flight_at then f
          else tidegate_internal.policy_at(r.kind, 'tx', r.tx_in_flight_at) end as policy
      ) as p
      cross join lateral (
        select c.code, tidegate.error_class(c.code) as class
        from (select coalesce(errors[h.place] ->> 'code', 'other') as code) as c
      ) as e
      cross join lateral (
        -- A refused send had no effect, unless another call was made for it.
        select coalesce(may_have_left[h.place], true)
          and not (e.class in ('4xx', 'unauthorized') and coalesce(settle_retry.hedges[h.place], 0) = 0) as left_now
      ) as l
      cross join lateral (
        select case
          when r.tx_attempt <= 1 then r.tx_in_flight_at
          else coalesce((
            select max(v.at)
            from tidegate.stored_event as v
            where v.request_id = r.id and v.to_status = 'tx_in_flight' and v.attempt = 1
          ), r.tx_in_flight_at)
        end as first_at
      ) as t
    ) as a
    cross join lateral tidegate_internal.retry_due(
      a.policy, a.tx_attempt, settle_retry.after[a.place],
      least(a.deadline_at, a.first_at + (a.policy).deadline_ms * interval '1 ms')
        - (a.policy).margin_ms * interval '1 ms',
      v_now
    ) as w(due)
  ), moved as (
    update tidegate.request as r
    set
      req_status = (case j.cause when 'send_retried' then 'processing' else 'failure' end)::tidegate.request_status,
      previous_status = r.req_status, transition_no = r.transition_no + 1, cause = j.cause,
      finished_at = case when j.cause <> 'send_retried' then v_now end,
      tx_unsent = j.tx_unsent,
      cancel_requested_at = case when j.cause <> 'send_retried' then r.cancel_requested_at end,
      lease = null, queue = case j.cause when 'send_retried' then r.queue end,
      msg_id = case j.cause when 'send_retried' then r.msg_id end,
      error = case
        when j.cause = 'send_retried' then errors[j.place]
        when j.cause = 'rejected' then tidegate_internal.final_error(
          coalesce(errors[j.place], tidegate_internal.error_json('rejected', 'no reason given', false)), null, r,
          j.tx_unsent, false
        )
        when j.cause = 'cancelled' then tidegate_internal.final_error(
          tidegate_internal.error_json('cancelled', 'cancelled', false), errors[j.place], r, j.tx_unsent
        )
        else tidegate_internal.final_error(
          tidegate_internal.error_json(
            j.cause, format('attempt %s: %s', r.tx_attempt, coalesce(errors[j.place] ->> 'message', 'no reason given')),
            true
          ),
          errors[j.place], r, j.tx_unsent
        )
      end
    from judged as j
    where r.id = any(array[j.id]) and r.req_status = 'tx_in_flight'
    returning
      r.id, r.kind, r.tx_attempt, r.req_status, j.msg_id, j.visible, j.place, j.token, j.claimed,
      case j.class when 'timeout' then 'timeout' when '4xx' then null when 'throttled' then 'void'
        when 'unauthorized' then case when j.retried then 'unauthorized' end else
        -- Tidegate's own errors are no sign of the downstream's health.
        case when errors[j.place] ->> 'code' in ('effect_failed', 'attempts_exhausted') then 'void' else 'failed' end
      end as outcome
  )
  select
    array_agg(m.id) as ids, array_agg(m.req_status) as statuses,
    array_agg(m.claimed) filter (where m.req_status = 'failure') as drained,
    array_agg(m.msg_id) filter (where m.req_status = 'processing') as kept,
    array_agg(m.id) filter (where m.req_status = 'processing') as kept_ids,
    array_agg(case when m.visible <= v_now then '-infinity' else m.visible end)
      filter (where m.req_status = 'processing') as visible,
    array_agg(m.kind) as kinds, array_agg(m.tx_attempt = 1) as first, array_agg(m.outcome) as outcomes,
    array_agg(m.req_status = 'processing') as retried, array_agg(m.place) as places, array_agg(m.token) as tokens,
    array_agg(m.claimed) as claimed, count(*) filter (where m.req_status = 'processing' and m.claimed is null) as lost
  into v_moved
  from moved as m;

  -- First: ending leases may wait for the queue's drain lock, which comes after the watermark's.
  perform tidegate_internal.put_back(v_held.queue, v_moved.kept, v_moved.kept_ids, v_moved.visible, v_moved.lost);
  perform tidegate_internal.end_leases(v_held.queue, v_moved.ids, v_moved.tokens, v_moved.drained);
  perform tidegate_internal.record_calls(
    'tx', v_moved.kinds, v_moved.first, v_moved.outcomes, v_moved.retried, v_moved.places, took_ms, hedges,
    v_moved.claimed
  );
  return query select * from unnest(v_moved.ids, v_moved.statuses);
end;
$$;
select tidegate_internal.plan_along_indexes('settle_retry');
