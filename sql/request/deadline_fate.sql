-- deadline_fate: The fate of a live request by the deadline that has passed: unready, overdue or unanswered.
--
-- undated: it has no deadline in its status. null: no deadline has passed. `p_due_at` is when its response is due, if
-- it awaits one.
create or replace function tidegate_internal.deadline_fate(
  p_status tidegate.request_status, p_readiness_deadline_at timestamptz, p_deadline_at timestamptz,
  p_due_at timestamptz,
  p_now timestamptz
)
  returns text language sql immutable parallel safe
return (
  case
    when p_status = 'queued' and p_readiness_deadline_at <= p_now then 'unready'
    when p_status in ('queued', 'processing', 'tx_in_flight') and p_deadline_at <= p_now then 'overdue'
    when p_status = 'receipt_received' and p_due_at <= p_now then 'unanswered'
    when p_status = 'queued' and p_readiness_deadline_at is null then 'undated'
    when p_status = 'receipt_received' and p_due_at is null then 'undated'
  end
);
