-- explain: The reasons for the state of a request, the decisive one first: code, sentence and figures.
--
-- One row a reason that applies: its code, a sentence, and the figures in it. Codes, in the order in which they decide:
--   completed, failure, timed_out      it has ended
--   awaiting_response                  the downstream took it, and has not answered yet
--   overdue                            its deadline has passed: the next sweep ends it
--   no_message                         it has lost its place in the queue: `tidegate recover` brings it back
--   held                               a worker holds it
--   cancelling                         its cancel was requested while it is sent
--   quarantined                        nothing is sent from this database
--   paused, stopped                    an operator has stopped the queue or the kind, or set its limit to 0
--   lost                               its lease has run out: the next claim takes or ends it
--   breaker_open, breaker_half_open    calls for its kind are held back, or tried with a few
--   backing_off, not_before            its next attempt or start is snoozed
--   concurrency_full, rate_limited     as many checks run, or as many sends have begun, as may
--   waiting_behind                     others stand before it
--   no_worker                          no live worker serves the queue
--   next                               the next claim takes it
--   unresolved, resolved               it may have been executed; it is known whether it was
--   redriven, redrive                  it has failed, and was submitted again; it is one that had failed (`redrive`)
-- Raises TG006 when there is no such request.
create or replace function tidegate.explain(id uuid)
  returns table (reason text, sentence text, figures jsonb) language plpgsql stable security definer as $$
declare
  v_now     constant timestamptz := tidegate.clock();
  v_request tidegate.request;
  v_due_at  timestamptz;
  v_parts   bigint;
begin
  select * into v_request from tidegate.request as r where r.id = explain.id;
  if not found then
    raise exception using
      errcode = 'TG006',
      message = case
        when exists (select from tidegate.request_event as e where e.request_id = explain.id)
          then format('there is no request %s any more, only its history', explain.id)
        else format('there is no request %s', explain.id)
      end;
  end if;
  if v_request.req_status in ('queued', 'processing', 'tx_in_flight') then
    return query select * from tidegate_internal.explain_waiting(v_request, v_now);
  end if;
  v_due_at := (select a.due_at from tidegate.awaiting_response as a where a.request_id = explain.id);
  v_parts := (select count(*) from tidegate.response_part as p where p.request_id = explain.id);
  return query
    select r.reason, r.sentence, jsonb_strip_nulls(r.figures)
    from (values
      (
        'overdue', v_due_at <= v_now,
        format('overdue: its response was due at %s, and the next sweep ends it',
          tidegate_internal.plain_time(v_due_at)),
        jsonb_build_object('deadline_at', v_due_at)
      ),
      (
        'awaiting_response', v_request.req_status = 'receipt_received',
        format('awaiting its response%s: the downstream took it at %s%s%s',
          coalesce(' until ' || tidegate_internal.plain_time(v_due_at),
            ', without a deadline (see `tidegate recover`)'),
          tidegate_internal.plain_time(v_request.receipt_received_at), ' as ' || v_request.reference,
          case when v_request.response_threshold > 1
            then format('; %s of %s shares are here', v_parts, v_request.response_threshold) end),
        jsonb_build_object(
          'since', v_request.receipt_received_at, 'due_at', v_due_at, 'reference', v_request.reference,
          'parts', v_parts, 'threshold', v_request.response_threshold, 'worker', v_request.worker
        )
      ),
      (
        v_request.req_status::text, v_request.req_status in ('completed', 'timed_out', 'failure'),
        format('%s at %s, %s after its submission (%s)%s',
          case v_request.req_status when 'failure' then 'failed' else replace(v_request.req_status::text, '_', ' ') end,
          tidegate_internal.plain_time(v_request.finished_at),
          tidegate_internal.plain_span(v_request.finished_at - v_request.submitted_at), v_request.cause,
          case when v_request.req_status <> 'completed'
            then ': ' || concat_ws(': ', v_request.error ->> 'code', v_request.error ->> 'message') end),
        jsonb_build_object(
          'finished_at', v_request.finished_at, 'cause', v_request.cause, 'error', v_request.error,
          'executed', tidegate.executed(v_request),
          'checks', v_request.readiness_attempt, 'sends', v_request.tx_attempt, 'worker', v_request.worker
        )
      )
    ) as r(reason, applies, sentence, figures)
    where r.applies
    union all
    select
      case o.executed when 'unknown' then 'unresolved' else 'resolved' end,
      case o.executed
        when 'unknown' then format('it may have been executed: %s searches for its receipt found no answer, %s',
          o.searches, coalesce('the next is at ' || tidegate_internal.plain_time(o.search_at), 'and no other follows'))
        else format('it was %sexecuted: known since %s (%s)', case o.executed when 'no' then 'not ' end,
          tidegate_internal.plain_time(o.at), o.source)
      end,
      jsonb_strip_nulls(jsonb_build_object('executed', o.executed, 'source', o.source, 'at', o.at,
        'searches', o.searches, 'search_at', o.search_at, 'contradicted_by', o.contradicted_by))
    from tidegate.outcome as o
    where o.request_id = explain.id
    union all
    select
      'redriven', format('it was submitted again at %s, as %s', tidegate_internal.plain_time(v.at), v.redriven_as),
      jsonb_build_object('redriven_as', v.redriven_as, 'at', v.at)
    from tidegate.redrive as v
    where v.request_id = explain.id
    union all
    select
      'redrive', format('it is %s submitted again, at %s', v.request_id, tidegate_internal.plain_time(v.at)),
      jsonb_build_object('redrive_of', v.request_id, 'at', v.at)
    from tidegate.redrive as v
    where v.redriven_as = explain.id;
end;
$$;
select tidegate_internal.allow('explain', '{reader,api,worker,admin}');
