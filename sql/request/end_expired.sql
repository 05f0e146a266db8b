-- end_expired: Ends requests that a deadline has overtaken, by the fate that `deadline_fate` gives; returns the
-- requests that moved. `p_locked` as in `end_requests`. What cannot be ended is passed over (see `try_each`).
create or replace function tidegate_internal.end_expired(p_ids uuid[], p_fate text, p_locked boolean default false)
  returns table (id uuid, req_status tidegate.request_status) language plpgsql as $$
declare
  v_end record;
begin
  if coalesce(cardinality(p_ids), 0) = 0 then
    return;
  end if;
  select * into v_end
  from (values
    ('unready', 'expire_by_readiness', '{queued}', 'timed_out', 'readiness_timed_out', 'not ready in time'),
    (
      'overdue', 'expire_by_deadline', '{queued,processing,tx_in_flight}', 'failure', 'deadline_exceeded',
      'the deadline passed before it was answered'
    ),
    (
      'unanswered', 'expire_responses', '{receipt_received}', 'timed_out', 'response_timed_out',
      'the downstream did not answer in time'
    )
  ) as f(fate, duty, from_statuses, to_status, cause, message)
  where f.fate = p_fate;
  return query
    select e.id, v_end.to_status::tidegate.request_status
    from unnest(tidegate_internal.try_each(
      v_end.duty, p_ids,
      format(
        'select array(
           select e.id from tidegate_internal.end_requests($1, %L, %L, array_fill(%L::text, ''{3}''), %L, %L) as e
         )',
        v_end.from_statuses, v_end.to_status, v_end.cause,
        tidegate_internal.error_json(v_end.cause, v_end.message, true), p_locked
      )
    )) as e(id);
end;
$$;
