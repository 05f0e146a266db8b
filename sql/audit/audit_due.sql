-- audit_due: By when a request has to leave a status that it entered at `p_entered`, and by what deadline.
--
-- Null where no deadline is on record: how long a response may take is its kind's, and not judged when that has
-- changed since.
create or replace function tidegate_internal.audit_due(
  p_request tidegate.request, p_status tidegate.request_status, p_entered timestamptz,
  out at timestamptz, out what text
)
  language sql stable as $$
  select
    case
      when p_status = 'queued' then least(p_request.readiness_deadline_at, p_request.deadline_at)
      when p_status in ('processing', 'tx_in_flight') then p_request.deadline_at
      when p_status = 'receipt_received' and not exists (
        select from tidegate.config_change as c
        where c.table_name = 'kind' and c.row_key = p_request.kind and c.column_name = 'response_timeout'
          and c.operation = 'update' and c.at > p_entered
      ) then p_entered + (select k.response_timeout from tidegate.kind as k where k.name = p_request.kind)
    end,
    case p_status
      when 'queued' then 'readiness deadline'
      when 'receipt_received' then 'response timeout'
      else 'deadline'
    end;
$$;
