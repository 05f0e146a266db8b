-- explain_sent: `explain` for a request that is in no queue any more: it awaits its response, or has ended.
create or replace function tidegate_internal.explain_sent(p_request tidegate.request, p_now timestamptz)
  returns table (reason text, sentence text, figures jsonb) language plpgsql stable as $$
#variable_conflict use_column
declare
  v_due_at timestamptz;
  v_parts  bigint;
begin
  if p_request.req_status = 'receipt_received' then
    select a.due_at into v_due_at from tidegate.awaiting_response as a where a.request_id = p_request.id;
    select count(*) into v_parts from tidegate.response_part as p where p.request_id = p_request.id;
    if v_due_at <= p_now then
      return query select
        'overdue',
        format('overdue: its response was due at %s, and the next sweep ends it',
          tidegate_internal.plain_time(v_due_at)),
        jsonb_build_object('deadline_at', v_due_at);
    end if;
    return query select
      'awaiting_response',
      format(
        'awaiting its response%s: the downstream took it at %s%s%s',
        coalesce(' until ' || tidegate_internal.plain_time(v_due_at), ', without a deadline (see `tidegate recover`)'),
        tidegate_internal.plain_time(p_request.receipt_received_at),
        coalesce(' as ' || p_request.reference, ''),
        case when p_request.response_threshold > 1
          then format('; %s of %s shares are here', v_parts, p_request.response_threshold) else '' end
      ),
      jsonb_strip_nulls(jsonb_build_object(
        'since', p_request.receipt_received_at, 'due_at', v_due_at, 'reference', p_request.reference,
        'parts', v_parts, 'threshold', p_request.response_threshold, 'worker', p_request.worker
      ));
    return;
  end if;

  return query select
    p_request.req_status::text,
    format(
      '%s at %s, %s after its submission (%s)%s',
      case p_request.req_status when 'completed' then 'completed' when 'timed_out' then 'timed out' else 'failed' end,
      tidegate_internal.plain_time(p_request.finished_at),
      tidegate_internal.plain_span(p_request.finished_at - p_request.submitted_at), p_request.cause,
      case when p_request.req_status <> 'completed'
        then coalesce(': ' || concat_ws(': ', p_request.error ->> 'code', p_request.error ->> 'message'), '')
          else '' end
    ),
    jsonb_strip_nulls(jsonb_build_object(
      'finished_at', p_request.finished_at, 'cause', p_request.cause, 'error', p_request.error,
      'checks', p_request.readiness_attempt, 'sends', p_request.tx_attempt, 'worker', p_request.worker
    ));
end;
$$;
