-- audit_whole: The totals of a request's history, then a row for each finding: a time of its row that is another one
-- there, and calls and backoffs that took too long in all.
create or replace function tidegate_internal.audit_whole(p_request tidegate.request, p_now timestamptz)
  returns table (detail jsonb, remark text, finding text) language plpgsql stable as $$
declare
  v_lease_ms constant integer := 30000;
  v_sent  record;
  v_time  record;
begin
  select
    count(*) as sends, coalesce(sum(s.in_call), 0) as in_call, coalesce(sum(s.backoff), 0) as backoff,
    -- The budget is of sends; searches for earlier receipts come on top.
    coalesce(round(sum(s.call_max / 2) filter (where s.attempt > 1)), 0) as searches,
    max(s.w_retry) as w_retry, count(*) filter (where s.w_retry is null) as unjudged
  into v_sent
  from tidegate_internal.audit_sends(p_request, p_now) as s;
  select
    coalesce(round(sum(l.ms) filter (where l.to_status = 'queued')), 0) as queued,
    coalesce(round(sum(l.ms) filter (where l.to_status in ('processing', 'tx_in_flight'))), 0) as sending,
    coalesce(round(sum(l.ms) filter (where l.to_status = 'receipt_received')), 0) as answering
  into v_time
  from (
    select
      e.to_status,
      greatest(extract(epoch from lead(e.at, 1, p_now) over (order by e.transition_no) - e.at) * 1000, 0) as ms
    from tidegate.request_event as e
    where e.request_id = p_request.id
  ) as l;

  detail := jsonb_build_object(
    'kind', p_request.kind, 'flow', p_request.flow, 'status', p_request.req_status, 'sends', v_sent.sends,
    'queued_ms', v_time.queued, 'in_calls_ms', v_sent.in_call, 'in_backoffs_ms', v_sent.backoff,
    'waiting_ms', greatest(v_time.sending - v_sent.in_call - v_sent.backoff, 0),
    'awaiting_response_ms', v_time.answering, 'w_retry_ms', v_sent.w_retry
  );
  return query select detail, format(
    '%s, %s: %s ms queued, %s ms in %s calls and at most %s ms in backoffs%s, %s ms waiting for a turn, %s ms for the '
      'response',
    p_request.kind, p_request.req_status, v_time.queued, v_sent.in_call, v_sent.sends, v_sent.backoff,
    coalesce(' (W_retry ' || v_sent.w_retry || ' ms)', ''), detail ->> 'waiting_ms', v_time.answering
  ), null::text;
  return query
    select null::jsonb, null::text, format(
      'the row was %s at %s, by its history at %s', t.word, coalesce(t.at::text, 'no time'),
      coalesce(e.at::text, 'no time')
    )
    from (values
      ('queued', p_request.queued_at), ('processing', p_request.processing_at),
      ('tx_in_flight', p_request.tx_in_flight_at),
      ('receipt_received', p_request.receipt_received_at), ('finished', p_request.finished_at)
    ) as t(word, at)
    left join lateral (
      select v.at
      from tidegate.request_event as v
      where v.request_id = p_request.id
        and t.word = case when v.to_status in ('completed', 'timed_out', 'failure') then 'finished'
          else v.to_status::text end
      order by v.transition_no desc
      limit 1
    ) as e on true
    where t.at is distinct from e.at
    order by t.at;
  -- Once a lease for all of them: what is settled a little late each time adds up.
  if v_sent.unjudged = 0 and v_sent.in_call + v_sent.backoff > v_sent.w_retry + v_sent.searches + v_lease_ms then
    return query select null::jsonb, null::text, format(
      '%s ms in calls and backoffs: more than W_retry %s ms, %s ms for searches for receipts and %s ms for a lease',
      v_sent.in_call + v_sent.backoff, v_sent.w_retry, v_sent.searches, v_lease_ms
    );
  end if;
end;
$$;
