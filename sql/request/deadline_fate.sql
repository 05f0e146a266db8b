-- deadline_fate: The fate of a live request by the deadline that has passed: unready, overdue or unanswered.
--
-- undated: it has no deadline in its status. null: no deadline has passed. One row, so that the planner inlines it.
create or replace function tidegate_internal.deadline_fate(
  p_id uuid, p_status tidegate.request_status, p_readiness_deadline_at timestamptz, p_deadline_at timestamptz,
  p_now timestamptz
)
  returns setof text language sql stable
begin atomic
  select case
    when d.due_at <= p_now then 'unanswered'
    when p_status = 'receipt_received' and d.due_at is null then 'undated'
    when p_status = 'queued' and p_readiness_deadline_at <= p_now then 'unready'
    when p_status in ('queued', 'processing', 'tx_in_flight') and p_deadline_at <= p_now then 'overdue'
    when p_status = 'queued' and p_readiness_deadline_at is null then 'undated'
  end
  from (
    select case when p_status = 'receipt_received' then (
      select a.due_at from tidegate.awaiting_response as a where a.request_id = p_id
    ) end as due_at
  ) as d;
end;
