-- settle: Ends the claims of requests with what came of their checks or sends; returns the requests that moved.
--
-- All leases name one queue. `outcomes` has one for each lease, or one for all:
--
-- - `passed`, of a check: queued → processing;
-- - `snoozed`, of a check: it is made again `after` a while, or by the policy's backoff, and uses no attempt;
-- - `receipt`, of a send: tx_in_flight → receipt_received, with the downstream's reference (`refs`) under which the
--   response may come, or with the response itself (`responses`), which completes the request;
-- - `retry`, with an error: another attempt `after` a while, or by the policy's backoff, if the policy allows one;
--   `may_have_left` false: the downstream has certainly not received this send;
-- - `rejected`, with an error: queued or tx_in_flight → failure;
-- - `released`: the call has not begun, and uses no attempt.
--
-- The other arrays have one element for each lease, or are null. `errors`: {"code": text, "message": text, "retryable":
-- boolean}. `took_ms`: how long the call took (null: since the claim). `hedges`: how many more were made for it.
--
-- A request missing from the result was not this holder's any more (its lease was taken over; it was cancelled, or has
-- timed out): drop the outcome. `wake`: nothing waited before in the `queue` that the request is in now, so its workers
-- may be asleep. `settle_passed`, `settle_snooze`, `settle_failed`, `settle_receipt`, `settle_retry`, `settle_rejected`
-- and `settle_released` say more of each.
create or replace function tidegate.settle(
  leases tidegate.lease[], outcomes text[], errors jsonb[] default null, after interval[] default null,
  may_have_left boolean[] default null, refs text[] default null, responses jsonb[] default null,
  took_ms integer[] default null, hedges integer[] default null
)
  returns table (id uuid, req_status tidegate.request_status, queue text, wake boolean)
  language plpgsql security definer
as $$
declare
  -- Outcomes that put messages back come first: a transaction takes the lock of the watermark before a drain lock.
  v_order constant text[] := '{released,snoozed,retry,passed,receipt,rejected}';
  v_outcome text := outcomes[1];
  v_is_check boolean;
begin
  if (outcomes <@ v_order and cardinality(outcomes) in (1, cardinality(leases))) is not true then
    raise exception using errcode = 'TG007',
      message = 'a settle has one outcome for each lease, or one for all: ' || array_to_string(v_order, ', '),
      detail = format('%s leases, outcomes: %s', cardinality(leases), array_to_string(outcomes, ', ', 'null'));
  end if;
  if v_outcome <> any(outcomes) then
    perform tidegate_internal.lock_outcomes(leases, outcomes, refs);
    foreach v_outcome in array v_order loop
      continue when v_outcome <> all(outcomes);
      return query
        select s.*
        from (
          select
            array_agg(row(u.queue, u.token, u.id)::tidegate.lease) as leases, array_agg(u.error) as errors,
            array_agg(u.after) as after, array_agg(u.may_have_left) as may_have_left, array_agg(u.reference) as refs,
            array_agg(u.response) as responses, array_agg(u.took_ms) as took_ms, array_agg(u.hedges) as hedges
          from unnest(leases, outcomes, errors, after, may_have_left, refs, responses, took_ms, hedges)
            as u(queue, token, id, outcome, error, after, may_have_left, reference, response, took_ms, hedges)
          where u.outcome = v_outcome
        ) as o
        cross join lateral tidegate.settle(
          o.leases, array[v_outcome], o.errors, o.after, o.may_have_left, o.refs, o.responses, o.took_ms, o.hedges
        ) as s;
    end loop;
    return;
  end if;

  if v_outcome = 'receipt' then
    return query
      select s.id, s.req_status, null::text, null::boolean
      from tidegate_internal.settle_receipt(leases, refs, responses, took_ms, hedges) as s;
    return;
  elsif v_outcome = 'passed' then
    return query select * from tidegate_internal.settle_passed(leases, took_ms, hedges);
    return;
  elsif v_outcome = 'snoozed' then
    return query
      select s.id, s.req_status, null::text, null::boolean
      from tidegate_internal.settle_snooze(leases, after, null, took_ms, hedges) as s;
    return;
  elsif v_outcome = 'released' then
    return query
      select s.id, s.req_status, null::text, null::boolean from tidegate_internal.settle_released(leases) as s;
    return;
  end if;

  v_is_check := (
    select q.stage = 'readiness' from tidegate.queue as q where q.name = tidegate_internal.lease_queue(leases)
  );
  if v_outcome = 'retry' and v_is_check then
    return query
      select s.id, s.req_status, null::text, null::boolean
      from tidegate_internal.settle_snooze(
        leases, after,
        -- Without an error it would be a snooze.
        array(
          select coalesce(e.error, tidegate_internal.error_json('other', 'no reason given', true))
          from unnest(leases, errors) with ordinality as e(queue, token, id, error, place)
          order by e.place
        ),
        took_ms, hedges
      ) as s;
  elsif v_outcome = 'retry' then
    return query
      select s.id, s.req_status, null::text, null::boolean
      from tidegate_internal.settle_retry(leases, errors, after, may_have_left, took_ms, hedges) as s;
  elsif v_outcome = 'rejected' and v_is_check then
    return query
      select s.id, s.req_status, null::text, null::boolean
      from tidegate_internal.settle_failed(leases, errors, took_ms, hedges) as s;
  elsif v_outcome = 'rejected' then
    return query
      select s.id, s.req_status, null::text, null::boolean
      from tidegate_internal.settle_rejected(leases, errors, took_ms, hedges) as s;
  end if;
end;
$$;
select tidegate_internal.allow('settle', '{worker,admin}');
