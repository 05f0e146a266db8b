-- tidegate.settle_not_yet: queued → queued, for requests that are not ready; they are checked again later
--
-- `after` (one per lease, null: by the kind's policy) says when. The wait never outlives the readiness deadline;
-- after the policy's last attempt the request times out instead (queued → timed_out). `errors` (one per lease, or null)
-- are for checks that have failed themselves, by a timeout or a 5xx, rather than said no: those that the policy's
-- `retry_on` does not list end the request (queued → failure). `took_ms` and `hedges` (one per lease, or null): how long the
-- check took, and how many more were made for it. The policy is the one in force when the check began.
--
-- Returns what became of each request still held; a missing one was not this holder's any more.
-- An earlier version has other parameters.
drop function if exists tidegate.settle_not_yet(tidegate.lease[], interval[]);

create or replace function tidegate.settle_not_yet(
  leases  tidegate.lease[],
  after   interval[] default null,
  errors  jsonb[] default null,
  took_ms integer[] default null,
  hedges  integer[] default null
)
  returns table (id uuid, req_status tidegate.request_status)
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
  set jit = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_held  record;
  v_now   timestamptz := clock_timestamp();
  v_moved record;
begin
  select * into v_held from tidegate.lock_held(leases);
  if v_held.ids is null then
    return;
  end if;

  with judged as materialized (
    select
      a.id, a.msg_id, a.place, a.claimed, a.class,
      case
        when a.class is not null and not tidegate.is_retried((a.policy).retry_on, a.code) then 'readiness_failed'
        when a.readiness_attempt >= (a.policy).attempts then 'readiness_timed_out'
      end as ended,
      v_now + coalesce(
        -- `greatest` alone passes over nulls, and would take no wish for the wish not to wait.
        case
          when (a.policy).respect_retry_after and settle_not_yet.after[a.place] is not null
            then greatest(settle_not_yet.after[a.place], interval '0')
        end,
        tidegate.backoff(
          a.readiness_attempt, (a.policy).base_ms, (a.policy).factor, (a.policy).cap_ms, (a.policy).jitter_ms,
          2 * random() - 1
        )
      ) as visible
    from (
      select
        r.id, r.readiness_attempt, h.msg_id, h.place, h.claimed, e.code,
        case when e.code is not null then tidegate.error_class(e.code) end as class,
        case when f.since <= h.claimed then f else tidegate.policy_at(r.kind, 'readiness', h.claimed) end as policy
      from unnest(v_held.ids, v_held.msg_ids, v_held.places, v_held.claimed) as h(id, msg_id, place, claimed)
      join tidegate.request as r on r.id = h.id
      join tidegate.policy_in_force as f on f.kind = r.kind and f.stage = 'readiness'
      cross join lateral (
        select case when errors[h.place] is not null then coalesce(errors[h.place] ->> 'code', 'other') end as code
      ) as e
    ) as a
  ), moved as (
    update tidegate.request as r
    set
      req_status = case j.ended when 'readiness_failed' then 'failure' when 'readiness_timed_out' then 'timed_out'
        else r.req_status end,
      transition_no = r.transition_no + (j.ended is not null)::integer,
      cause = coalesce(j.ended, r.cause),
      queue = case when j.ended is null then r.queue end,
      msg_id = case when j.ended is null then r.msg_id end,
      worker = case when j.ended is not null then r.worker end,
      error = case j.ended
        when 'readiness_failed' then errors[j.place]
        when 'readiness_timed_out' then tidegate.error_json(
          'readiness_timed_out',
          format('not ready after %s checks', r.readiness_attempt)
            || coalesce('; the last: ' || (errors[j.place] ->> 'message'), ''),
          true)
        else r.error
      end
    from judged as j
    where r.id = j.id and r.req_status = 'queued' and r.queue = v_held.queue and r.msg_id = j.msg_id
    returning
      r.id, r.kind, r.readiness_attempt, r.req_status, j.msg_id, j.ended, j.place, j.claimed,
      least(j.visible, r.readiness_deadline_at) as visible, j.class is not null and j.ended is null as retried,
      case when j.class = 'timeout' then 'timeout' when j.class = 'throttled' then 'void' when j.class <> '4xx' then 'failed' end
        as outcome
  )
  select
    array_agg(m.id) as ids,
    array_agg(m.req_status) as statuses,
    array_agg(m.msg_id) filter (where m.ended is not null) as done,
    array_agg(m.msg_id) filter (where m.ended is null) as kept,
    array_agg(case when m.visible <= v_now then '-infinity' else m.visible end) filter (where m.ended is null) as visible,
    array_agg(m.kind) as kinds, array_agg(m.readiness_attempt = 1) as first, array_agg(m.outcome) as outcomes,
    array_agg(m.retried) as retried, array_agg(m.place) as places, array_agg(m.claimed) as claimed
  into v_moved
  from moved as m;

  perform tidegate.delete_messages(v_held.queue, v_moved.done, true);
  if v_moved.kept is not null then
    perform tidegate.free_messages(v_held.queue, v_moved.kept, v_moved.visible);
  end if;
  perform tidegate.note_calls(
    'readiness', v_moved.kinds, v_moved.first, v_moved.outcomes, v_moved.retried, v_moved.places, took_ms, hedges,
    v_moved.claimed
  );
  return query select * from unnest(v_moved.ids, v_moved.statuses);
end;
$$;
