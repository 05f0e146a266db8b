-- settle: Ends the claims of requests with what came of their checks or sends; returns the requests that moved.
--
-- Each lease has one outcome, and all leases name one queue:
--
-- - `passed`, of a check: queued → processing;
-- - `snoozed`, of a check: it is made again `after` a while, or by the policy's backoff, and uses no attempt;
-- - `receipt`, of a send: tx_in_flight → receipt_received, with the `reference` under which the response may come, or
--   with the `response` itself, which completes the request;
-- - `retry`, with an `error`: another attempt `after` a while, or by the policy's backoff, if the policy allows one;
--   `may_have_left` false: the downstream has certainly not received this send;
-- - `rejected`, with an `error`: queued or tx_in_flight → failure;
-- - `released`: the call has not begun, and uses no attempt.
--
-- `error` is {"code": text, "message": text, "retryable": boolean}. `took_ms` is how long the call took (null: since
-- the claim), `hedges` how many more were made for it.
--
-- A request missing from the result was not this holder's any more (its lease was taken over; it was cancelled, or has
-- timed out): drop the outcome. `wake`: nothing waited before in the `queue` that the request is in now, so its workers
-- may be asleep. `settle_passed`, `settle_snooze`, `settle_failed`, `settle_receipt`, `settle_retry`, `settle_rejected`
-- and `settle_released` say more of each.
create or replace function tidegate.settle(leases tidegate.lease[], outcomes tidegate.call_outcome[])
  returns table (id uuid, req_status tidegate.request_status, queue text, wake boolean)
  language plpgsql security definer
as $$
declare
  -- Those that put messages back come first: the lock of the watermark comes before those of drains.
  v_order constant text[] := '{released,snoozed,retry,passed,receipt,rejected}';
  v_words text[] := array(select distinct o.outcome from unnest(outcomes) as o);
  v_word  text;
  v_stage tidegate.stage;
  v_of    record;
begin
  if cardinality(leases) is distinct from cardinality(outcomes) or not v_words <@ v_order then
    raise exception using errcode = 'TG007',
      message = 'a settle has one outcome for each lease: ' || array_to_string(v_order, ', '),
      detail = format('leases: %s, outcomes: %s', cardinality(leases), array_to_string(v_words, ', ', 'null'));
  end if;
  if cardinality(v_words) > 1 then
    perform tidegate_internal.lock_outcomes(leases, outcomes, v_words);
  end if;
  if v_words && '{retry,rejected}' then
    v_stage := (select q.stage from tidegate.queue as q where q.name = tidegate_internal.lease_queue(leases));
  end if;

  for v_word in select w.word from unnest(v_words) as w(word) order by array_position(v_order, w.word) loop
    select
      array_agg(row(u.queue, u.token, u.id)::tidegate.lease) as leases, array_agg(u.error) as errors,
      array_agg(u.after) as after, array_agg(u.may_have_left) as may_have_left, array_agg(u.reference) as refs,
      array_agg(u.response) as responses, array_agg(u.took_ms) as took_ms, array_agg(u.hedges) as hedges
    into v_of
    from unnest(leases, outcomes)
      as u(queue, token, id, outcome, error, after, may_have_left, reference, response, took_ms, hedges)
    where u.outcome = v_word;
    if v_word = 'receipt' then
      return query
        select s.id, s.req_status, null::text, null::boolean
        from tidegate_internal.settle_receipt(v_of.leases, v_of.refs, v_of.responses, v_of.took_ms, v_of.hedges) as s;
    elsif v_word = 'passed' then
      return query select * from tidegate_internal.settle_passed(v_of.leases, v_of.took_ms, v_of.hedges);
    elsif v_word = 'snoozed' then
      return query
        select s.id, s.req_status, null::text, null::boolean
        from tidegate_internal.settle_snooze(v_of.leases, v_of.after, null, v_of.took_ms, v_of.hedges) as s;
    elsif v_word = 'retry' and v_stage = 'readiness' then
      return query
        select s.id, s.req_status, null::text, null::boolean
        from tidegate_internal.settle_snooze(
          v_of.leases, v_of.after,
          array(
            select coalesce(e.error, tidegate_internal.error_json('other', 'no reason given', true))
            from unnest(v_of.errors) with ordinality as e(error, place)
            order by e.place
          ),
          v_of.took_ms, v_of.hedges
        ) as s;
    elsif v_word = 'retry' then
      return query
        select s.id, s.req_status, null::text, null::boolean
        from tidegate_internal.settle_retry(
          v_of.leases, v_of.errors, v_of.after, v_of.may_have_left, v_of.took_ms, v_of.hedges
        ) as s;
    elsif v_word = 'rejected' and v_stage = 'readiness' then
      return query
        select s.id, s.req_status, null::text, null::boolean
        from tidegate_internal.settle_failed(v_of.leases, v_of.errors, v_of.took_ms, v_of.hedges) as s;
    elsif v_word = 'rejected' then
      return query
        select s.id, s.req_status, null::text, null::boolean
        from tidegate_internal.settle_rejected(v_of.leases, v_of.errors, v_of.took_ms, v_of.hedges) as s;
    else
      return query
        select s.id, s.req_status, null::text, null::boolean from tidegate_internal.settle_released(v_of.leases) as s;
    end if;
  end loop;
end;
$$;
select tidegate_internal.allow('settle', '{worker,admin}');
-- The functions of each sort set how their statements are planned; here each statement, theirs too, keeps its plan.
alter function tidegate.settle(tidegate.lease[], tidegate.call_outcome[]) set plan_cache_mode = force_generic_plan;
