-- explain: The reasons for the state of a request, the decisive one first: code, sentence and figures.
--
-- One row a reason that applies: its code, a sentence, and the figures in it. Codes, in the order in which they decide:
--   completed, failure, timed_out      it has ended
--   awaiting_response                  the downstream took it, and has not answered yet
--   overdue                            its deadline has passed: the next sweep ends it
--   no_message                         it has lost its place in the queue: `tidegate recover` brings it back
--   held                               a worker holds it
--   paused, stopped                    an operator has stopped the queue, or set its limit to 0
--   lost                               its lease has run out: the next claim takes or ends it
--   breaker_open, breaker_half_open    calls for its kind are held back, or tried with a few
--   backing_off, not_before            its next attempt or start is snoozed
--   concurrency_full, rate_limited     as many checks run, or as many sends have begun, as may
--   waiting_behind                     others stand before it
--   no_worker                          no live worker serves the queue
--   next                               the next claim takes it
--   redriven, redrive                  it has failed, and was submitted again; it is one that had failed (`redrive`)
-- Raises TG006 when there is no such request.
create or replace function tidegate.explain(id uuid)
  returns table (reason text, sentence text, figures jsonb) language plpgsql stable security definer
  set jit = off
as $$
#variable_conflict use_column
declare
  v_request tidegate.request;
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
    return query select * from tidegate_internal.explain_waiting(v_request, tidegate.clock());
  else
    return query select * from tidegate_internal.explain_sent(v_request, tidegate.clock());
  end if;
  return query
    select
      'redriven', format('it was submitted again at %s, as %s', tidegate_internal.plain_time(v.at), v.redriven_as),
      jsonb_build_object('redriven_as', v.redriven_as, 'at', v.at)
    from tidegate.redrive as v
    where v.request_id = v_request.id
    union all
    select
      'redrive', format('it is %s submitted again, at %s', v.request_id, tidegate_internal.plain_time(v.at)),
      jsonb_build_object('redrive_of', v.request_id, 'at', v.at)
    from tidegate.redrive as v
    where v.redriven_as = v_request.id;
end;
$$;
select tidegate_internal.allow('explain', '{reader,api,worker,admin}');
