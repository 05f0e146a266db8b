-- request_outlook: The status, position, ETAs and response of one request, as a poll returns them; no row for an
-- unknown id.
--
-- `place` is readiness_queue, checking, tx_queue, tx_in_flight, awaiting_response or finished; `elapsed` is the time in
-- the current status, `age` since the submission; `retry_after_seconds` is 0 for a finished request. `eta_p50_ms` and
-- `eta_p90_ms` are there for kinds with `eta = 'observed'` once enough was observed; `predicted_seconds` is the
-- Retry-After at submit.
create or replace function tidegate.request_outlook(
  inout id uuid,
  out kind text, out flow tidegate.flow, out req_status tidegate.request_status, out place text, out queue text,
  out queue_position bigint, out elapsed interval, out age interval, out retry_after_seconds integer,
  out eta_p50_ms bigint, out eta_p90_ms bigint, out predicted_seconds integer, out submitted_at timestamptz,
  out response jsonb, out error jsonb, out submitter text
)
  returns setof record language plpgsql stable security definer as $$
#variable_conflict use_column
declare
  -- Messages newer than the last survey that are counted; beyond, an upper bound is enough.
  v_counted   constant integer := 4000;
  v_request   tidegate.request;
  v_kind      tidegate.kind;
  v_place     record;
  v_where     text;
  v_elapsed   interval;
  v_age       interval;
  v_terms     tidegate.eta_terms;
  v_advice    tidegate.retry_after;
  v_now       timestamptz;
begin
  select * into v_request from tidegate.request as r where r.id = request_outlook.id;
  if not found then
    return;
  end if;
  v_now := tidegate.clock();
  v_elapsed := greatest(interval '0', v_now - tidegate_internal.entered_at(
    v_request.req_status, v_request.queued_at, v_request.processing_at, v_request.tx_in_flight_at,
    v_request.receipt_received_at, v_request.finished_at
  ));
  v_age := greatest(interval '0', v_now - v_request.submitted_at);
  select * into v_place from tidegate_internal.message_place(
    v_request.queue, v_request.msg_id, v_request.id, v_request.lease, v_counted
  );

  v_where := case v_request.req_status
    when 'queued' then case when v_place.held then 'checking' else 'readiness_queue' end
    when 'processing' then 'tx_queue'
    when 'tx_in_flight' then 'tx_in_flight'
    when 'receipt_received' then 'awaiting_response'
    else 'finished'
  end;
  if v_where = 'finished' then
    v_advice.seconds := 0;
  else
    select * into v_kind from tidegate.kind as k where k.name = v_request.kind;
    v_terms := tidegate_internal.eta_inputs(v_kind, v_request.queue, v_request.req_status, v_counted);
    if v_kind.eta = 'observed' then
      select t.* into v_advice
      from tidegate_internal.observed_eta(
        v_kind, v_where, v_place.queue_position, v_request.queue, v_place.visible_in,
        case when v_where in ('tx_in_flight', 'awaiting_response')
          then greatest(interval '0', v_now - v_request.tx_in_flight_at)
        end,
        v_age, v_terms, v_now
      ) as e
      cross join lateral tidegate_internal.retry_after(v_request.id, e.seconds, e.spread_to, e.p50_ms, e.p90_ms) as t;
    end if;
    if v_advice.seconds is null then
      -- By the nominal times; not before the end of a backoff or a delayed start.
      v_advice.seconds := case v_where
        when 'awaiting_response' then tidegate.response_backoff_seconds(v_elapsed)
        else greatest(
          tidegate.eta_seconds(
            v_where, v_place.queue_position, v_terms.tx_queue_size, v_terms.drain_tps, v_terms.concurrency,
            v_kind.readiness_ms, v_kind.processing_ms, v_kind.tx_confirmation_ms, v_terms.safety_margin,
            v_terms.min_seconds, v_terms.max_seconds
          ),
          case when v_place.visible_in is not null
            then least(ceil(extract(epoch from v_place.visible_in)), v_terms.max_seconds) end
        )
      end;
    end if;
  end if;

  return query select
    v_request.id, v_request.kind, v_request.flow, v_request.req_status, v_where, v_request.queue,
    v_place.queue_position, v_elapsed, v_age, v_advice.seconds, v_advice.p50_ms, v_advice.p90_ms,
    v_request.eta_seconds::integer, v_request.submitted_at, v_request.response, v_request.error,
    v_request.submitter;
end;
$$;
select tidegate_internal.allow('request_outlook', '{reader,api,worker,admin}');
