-- end_expired: Ends requests that a deadline has overtaken, by the fate that `deadline_fate` gives; returns the
-- requests that moved. `p_locked` as in `end_requests`.
create or replace function tidegate_internal.end_expired(p_ids uuid[], p_fate text, p_locked boolean default false)
  returns table (id uuid, req_status tidegate.request_status) language sql as $$
  select e.id, e.req_status
  from (values
    ('unready', '{queued}', 'timed_out', 'readiness_timed_out', 'not ready in time'),
    (
      'overdue', '{queued,processing,tx_in_flight}', 'failure', 'deadline_exceeded',
      'the deadline passed before it was answered'
    ),
    (
      'unanswered', '{receipt_received}', 'timed_out', 'response_timed_out',
      'the downstream did not answer in time'
    )
  ) as f(fate, from_statuses, to_status, cause, message)
  cross join lateral tidegate_internal.end_requests(
    p_ids, f.from_statuses::tidegate.request_status[], f.to_status::tidegate.request_status, array_fill(f.cause, '{3}'),
    tidegate_internal.error_json(f.cause, f.message, true), p_locked
  ) as e
  where f.fate = p_fate;
$$;
