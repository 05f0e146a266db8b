-- tidegate.request_outlook: all that a poll of one request tells, or no row for an unknown id
--
-- `place` is readiness_queue, checking, tx_queue, tx_in_flight, awaiting_response or finished; `elapsed` is the time
-- in the current status; `retry_after_seconds` is 0 for a finished request.
create or replace function tidegate.request_outlook(
  inout id                uuid,
  out kind                text,
  out flow                tidegate.flow,
  out req_status          tidegate.request_status,
  out place               text,
  out queue               text,
  out queue_position      bigint,
  out elapsed             interval,
  out retry_after_seconds integer,
  out submitted_at        timestamptz,
  out response            jsonb,
  out error               jsonb,
  out submitter           text
)
  returns setof record
  language plpgsql
  stable
  security definer
  set search_path = pg_catalog, pg_temp
  set jit = off
as $$
#variable_conflict use_column
declare
  v_request tidegate.request;
  v_kind    tidegate.kind;
  v_place   record;
  v_where   text;
  v_elapsed interval;
  v_seconds integer;
  v_inputs  record;
  -- Messages newer than the last survey that are counted; beyond, an upper bound tells as much.
  v_counted constant integer := 4000;
begin
  select * into v_request from tidegate.request as r where r.id = request_outlook.id;
  if not found then
    return;
  end if;
  v_elapsed := greatest(interval '0', clock_timestamp() - case v_request.req_status
    when 'queued' then v_request.queued_at
    when 'processing' then v_request.processing_at
    when 'tx_in_flight' then v_request.tx_in_flight_at
    when 'receipt_received' then v_request.receipt_received_at
    else v_request.finished_at
  end);
  select * into v_place from tidegate.message_place(v_request.queue, v_request.msg_id, v_counted);

  case v_request.req_status
    when 'receipt_received' then
      v_where := 'awaiting_response';
      v_seconds := tidegate.response_backoff_seconds(v_elapsed);
    when 'completed', 'timed_out', 'failure' then
      v_where := 'finished';
      v_seconds := 0;
    else
      v_where := case
        when v_request.req_status = 'tx_in_flight' then 'tx_in_flight'
        when v_request.req_status = 'processing' then 'tx_queue'
        when v_place.held then 'checking'
        else 'readiness_queue'
      end;
      select * into v_kind from tidegate.kind as k where k.name = v_request.kind;
      select * into v_inputs from tidegate.eta_inputs(v_kind, v_request.queue, v_request.req_status, v_counted);
      v_seconds := tidegate.eta_seconds(
        v_where, v_place.queue_position, v_inputs.tx_queue_size, v_inputs.drain_tps, v_inputs.concurrency,
        v_kind.readiness_ms, v_kind.processing_ms, v_kind.tx_confirmation_ms, v_inputs.safety_margin,
        v_inputs.min_seconds, v_inputs.max_seconds
      );
      if v_place.visible_in is not null then
        v_seconds := greatest(v_seconds, least(ceil(extract(epoch from v_place.visible_in)), v_inputs.max_seconds));
      end if;
  end case;

  return query select
    v_request.id, v_request.kind, v_request.flow, v_request.req_status, v_where, v_request.queue,
    v_place.queue_position, v_elapsed, v_seconds, v_request.submitted_at, v_request.response, v_request.error,
    v_request.submitter;
end;
$$;
