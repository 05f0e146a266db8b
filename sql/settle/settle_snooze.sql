-- settle_snooze: queued → queued, when a request is not ready: it is checked again later, or timed_out after the last
-- attempt; returns the fate of each.
--
-- A check without an error (`errors`: one per lease, or null) snoozes the request, which uses no
-- attempt of its policy; only its readiness deadline and its deadline end it. A check with an error has failed itself,
-- by a timeout or a 5xx: that uses an attempt (unless its class is `unauthorized`), and the request ends when the
-- policy's `retry_on` does not list the error (queued → failure), when no attempt is left, or when the next check would
-- begin later than the policy's deadline less its margin, counted from the first of the checks that have failed in a
-- row (queued → timed_out).
-- `after` (one per lease, null: by the policy's backoff) is when the next check is due; `took_ms` and `hedges` (one
-- per lease, or null) how long this one took, and how many more were made for it. The policy is the one in force when
-- the check began.
--
-- Returns the status of each request that was still held; a missing one was not this holder's any more.
create or replace function tidegate_internal.settle_snooze(
  leases tidegate.lease[], after interval[] default null, errors jsonb[] default null,
  took_ms integer[] default null, hedges integer[] default null
)
  returns table (id uuid, req_status tidegate.request_status) language plpgsql
as $$
declare
  v_held  record;
  v_now   timestamptz := tidegate.clock();
  v_moved record;
begin
  select * into v_held from tidegate_internal.lock_held(leases);
  if v_held.ids is null then
    return;
  end if;

  with judged as materialized (
    select
      a.id, a.msg_id, a.place, a.token, a.claimed, a.class, w.due as visible,
      case when a.class is not null then a.failing_since end as failing_since,
      case
        when a.class is null then null
        when not tidegate.is_retried((a.policy).retry_on, a.code) then 'readiness_failed'
        when a.class = 'unauthorized' and w.due is not null then null
        when a.readiness_attempt - a.readiness_waits >= (a.policy).attempts or w.due is null then 'readiness_timed_out'
      end as ended
    from (
      select
        r.id, r.readiness_attempt, r.readiness_waits, r.deadline_at, r.readiness_deadline_at, h.msg_id, h.place,
        h.token, h.claimed, e.code, coalesce(r.checks_failing_since, h.claimed) as failing_since,
        case when e.code is not null then tidegate.error_class(e.code) end as class,
        case when f.since <= h.claimed then f
          else tidegate_internal.policy_at(r.kind, 'readiness', h.claimed) end as policy
      from unnest(v_held.ids, v_held.msg_ids, v_held.places, v_held.tokens, v_held.claimed)
        as h(id, msg_id, place, token, claimed)
      cross join lateral (select * from tidegate.request as r where r.id = h.id offset 0) as r
      join tidegate.policy_in_force as f on f.kind = r.kind and f.stage = 'readiness'
      cross join lateral (
        select case when errors[h.place] is not null then coalesce(errors[h.place] ->> 'code', 'other') end as code
      ) as e
    ) as a
    cross join lateral tidegate_internal.retry_due(
      a.policy, a.readiness_attempt, settle_snooze.after[a.place],
      case
        when a.class is null or a.class = 'unauthorized' then least(a.readiness_deadline_at, a.deadline_at)
        else least(
          a.readiness_deadline_at, least(a.deadline_at, a.failing_since + (a.policy).deadline_ms * interval '1 ms')
            - (a.policy).margin_ms * interval '1 ms'
        )
      end,
      v_now
    ) as w(due)
  ), moved as (
    update tidegate.request as r
    set
      req_status = case j.ended when 'readiness_failed' then 'failure' when 'readiness_timed_out' then 'timed_out'
        else r.req_status end,
      previous_status = r.req_status, transition_no = r.transition_no + (j.ended is not null)::integer,
      cause = coalesce(j.ended, r.cause), finished_at = case when j.ended is not null then v_now end,
      lease = null, queue = case when j.ended is null then r.queue end,
      msg_id = case when j.ended is null then r.msg_id end, worker = case when j.ended is not null then r.worker end,
      readiness_waits = r.readiness_waits + (j.class is null or j.class = 'unauthorized')::integer,
      checks_failing_since = j.failing_since,
      error = case j.ended
        when 'readiness_timed_out' then tidegate_internal.with_last_error(
          tidegate_internal.error_json(
            'readiness_timed_out',
            format('not ready after %s checks', r.readiness_attempt)
              || coalesce('; the last: ' || (errors[j.place] ->> 'message'), ''),
            true
          ),
          errors[j.place]
        )
        else errors[j.place]
      end
    from judged as j
    where r.id = any(array[j.id]) and r.req_status = 'queued'
    returning
      r.id, r.kind, r.readiness_attempt, r.req_status, j.msg_id, j.ended, j.place, j.token, j.claimed,
      coalesce(j.visible, least(r.readiness_deadline_at, r.deadline_at)) as visible,
      j.class is not null and j.ended is null as retried,
      case when j.class = 'timeout' then 'timeout' when j.class = 'throttled' then 'void'
        when j.class = 'unauthorized' then case when j.ended is distinct from 'readiness_failed' then 'unauthorized' end
        when j.class <> '4xx' then 'failed' end as outcome
  )
  select
    array_agg(m.id) as ids, array_agg(m.req_status) as statuses,
    array_agg(m.claimed) filter (where m.ended is not null) as drained,
    array_agg(m.msg_id) filter (where m.ended is null) as kept,
    array_agg(m.id) filter (where m.ended is null) as kept_ids,
    array_agg(case when m.visible <= v_now then '-infinity'
      else m.visible end) filter (where m.ended is null) as visible,
    array_agg(m.kind) as kinds, array_agg(m.readiness_attempt = 1) as first, array_agg(m.outcome) as outcomes,
    array_agg(m.retried) as retried, array_agg(m.place) as places, array_agg(m.token) as tokens,
    array_agg(m.claimed) as claimed, count(*) filter (where m.ended is null and m.claimed is null) as lost
  into v_moved
  from moved as m;

  -- First: ending leases may wait for the queue's drain lock, which comes after the watermark's.
  perform tidegate_internal.put_back(v_held.queue, v_moved.kept, v_moved.kept_ids, v_moved.visible, v_moved.lost);
  perform tidegate_internal.end_leases(v_held.queue, v_moved.ids, v_moved.tokens, v_moved.drained);
  perform tidegate_internal.record_calls(
    'readiness', v_moved.kinds, v_moved.first, v_moved.outcomes, v_moved.retried, v_moved.places, took_ms, hedges,
    v_moved.claimed
  );
  return query select * from unnest(v_moved.ids, v_moved.statuses);
end;
$$;
select tidegate_internal.plan_along_indexes('settle_snooze');
