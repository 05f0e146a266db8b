-- request_outlooks: The status, position, ETAs and response of each of these requests, as polls return them, in one
-- read; no row for an unknown id.
--
-- `place` is readiness_queue, checking, tx_queue, tx_in_flight, awaiting_response or finished; `queue_position` is the
-- number of waiting messages before its own, 0 for a held request, null without a message; a request whose lease has
-- run out is counted as if it waited at its number. `elapsed` is the time in the current status, `age` since the
-- submission; `retry_after_seconds` is 0 for a finished request. `eta_p50_ms` and `eta_p90_ms` are there for kinds with
-- `eta = 'observed'` once enough was observed; `predicted_seconds` is the Retry-After at submit. `executed` is that of
-- the function of this name, and so is `resolution`; `cancelling`: it is being sent, and its cancel was requested.
create or replace function tidegate.request_outlooks(ids uuid[])
  returns table (
    id uuid, kind text, flow tidegate.flow, req_status tidegate.request_status, transition_no integer, place text,
    queue text, queue_position bigint, elapsed interval, age interval, retry_after_seconds integer, eta_p50_ms bigint,
    eta_p90_ms bigint, predicted_seconds integer, submitted_at timestamptz, response jsonb, error jsonb, submitter text,
    executed text, cancelling boolean, resolution jsonb, finished_at timestamptz
  )
  language plpgsql stable security definer as $$
#variable_conflict use_column
declare
  -- Messages newer than the last survey that are counted; beyond, an upper bound is enough.
  v_counted constant integer := 4000;
  v_now     constant timestamptz := tidegate.clock();
  v_ended   bigint;
begin
  return query
    select
      r.id, r.kind, r.flow, r.req_status, r.transition_no, 'finished', r.queue, null::bigint,
      greatest(interval '0', v_now - r.finished_at), greatest(interval '0', v_now - r.submitted_at), 0, null::bigint,
      null::bigint, r.eta_seconds::integer, r.submitted_at, r.response, r.error, r.submitter, tidegate.executed(r),
      false, tidegate.resolution(r), r.finished_at
    from tidegate.request as r
    where r.id = any(request_outlooks.ids) and r.req_status in ('completed', 'timed_out', 'failure');
  get diagnostics v_ended = row_count;
  if v_ended = cardinality(request_outlooks.ids) then
    return;
  end if;

  return query
    with asked as materialized (
      select
        r.id, r.kind, r.flow, r.req_status, r.transition_no, r.queue, r.msg_id, r.tx_in_flight_at, r.eta_seconds,
        r.submitted_at, r.error, r.submitter, r.cancel_requested_at,
        -- Null under no lease.
        case when r.lease is not null then (
          select bool_or(tidegate.is_held(c.until, c.lease_ms, v_now))
          from tidegate.claim as c
          where c.token = r.lease and r.id = any(c.ids)
        ) end as held,
        greatest(interval '0', v_now - tidegate_internal.entered_at(
          r.req_status, r.queued_at, r.processing_at, r.tx_in_flight_at, r.receipt_received_at, r.finished_at
        )) as elapsed,
        greatest(interval '0', v_now - r.submitted_at) as age
      from tidegate.request as r
      where r.id = any(request_outlooks.ids) and r.req_status not in ('completed', 'timed_out', 'failure')
    ), waiting as materialized (
      select q.name as queue, w.msg_id, w.waiting, w.vt, w.expected
      from (
        select a.queue as name, array_agg(distinct a.msg_id order by a.msg_id) as msg_ids
        from asked as a
        where a.msg_id is not null and a.held is not true
        group by a.queue
      ) as q
      cross join lateral tidegate_internal.waiting_before(q.name, q.msg_ids, v_counted, v_now) as w
    ), terms as materialized (
      select g.kind, g.queue, g.req_status, k as of_kind, t as terms
      from (
        select distinct a.kind, a.queue, a.req_status from asked as a
      ) as g
      join tidegate.kind as k on k.name = g.kind
      cross join lateral tidegate_internal.eta_inputs(k, g.queue, g.req_status, v_counted) as t
    ), placed as (
      select
        a.*, t.of_kind, t.terms,
        case a.req_status
          when 'queued' then case when a.held then 'checking' else 'readiness_queue' end
          when 'processing' then 'tx_queue'
          when 'tx_in_flight' then 'tx_in_flight'
          when 'receipt_received' then 'awaiting_response'
        end as place,
        case when a.held then 0 when a.held is not null or w.vt is not null then w.waiting end as queue_position,
        case when a.held then 0 when a.held is not null or w.vt is not null then coalesce(w.expected, w.waiting) end
          as expected,
        case when a.held is null and w.vt > v_now then w.vt - v_now end as visible_in
      from asked as a
      left join waiting as w on w.queue = a.queue and w.msg_id = a.msg_id and a.held is not true
      left join terms as t
        on t.kind = a.kind and t.req_status = a.req_status and t.queue is not distinct from a.queue
    )
    select
      p.id, p.kind, p.flow, p.req_status, p.transition_no, p.place, p.queue, p.queue_position, p.elapsed, p.age,
      coalesce(o.seconds, case p.place
        when 'awaiting_response' then tidegate.response_backoff_seconds(p.elapsed)
        -- By the nominal times; not before the end of a backoff or a delayed start. A send that takes longer is asked
        -- for again after as long as it has taken: its answer is late by half of its time at most.
        else greatest(
          case when p.place = 'tx_in_flight' and extract(epoch from p.elapsed) > l.first / l.below
            then least(ceil(extract(epoch from p.elapsed)), (p.terms).max_seconds) end,
          case when l.first is not null then tidegate.bounded_seconds(
            l.first + l.each * coalesce(p.expected, 0), l.below, (p.terms).min_seconds, (p.terms).max_seconds
          ) end,
          case when p.visible_in is not null
            then least(ceil(extract(epoch from p.visible_in)), (p.terms).max_seconds) end
        )
      end)::integer,
      o.p50_ms, o.p90_ms, p.eta_seconds::integer, p.submitted_at, null::jsonb, p.error, p.submitter, null::text,
      p.cancel_requested_at is not null and p.place = 'tx_in_flight', null::jsonb, null::timestamptz
    from placed as p
    left join lateral tidegate.eta_line(
      p.place, (p.terms).tx_queue_size, (p.terms).drain_tps, (p.terms).concurrency, (p.of_kind).readiness_ms,
      (p.of_kind).processing_ms, (p.of_kind).tx_confirmation_ms, (p.terms).safety_margin
    ) as l on true
    left join lateral (
      select t.*
      from tidegate_internal.observed_eta(
        p.of_kind, p.place, p.expected, p.queue, p.visible_in,
        case when p.place in ('tx_in_flight', 'awaiting_response')
          then greatest(interval '0', v_now - p.tx_in_flight_at) end,
        p.age, p.terms, v_now
      ) as e
      cross join lateral tidegate_internal.eta_with_jitter(p.id, e.seconds, e.spread_to, e.p50_ms, e.p90_ms) as t
      where (p.of_kind).eta = 'observed'
      -- Not called for the others.
      offset 0
    ) as o on true;
end;
$$;
select tidegate_internal.allow('request_outlooks', '{reader,api,worker,admin}');
select tidegate_internal.plan_along_indexes('request_outlooks');
