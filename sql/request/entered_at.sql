-- entered_at: When a request entered its status.
--
-- An expression, which PostgreSQL puts in place of the call.
create or replace function tidegate_internal.entered_at(
  p_status tidegate.request_status, p_queued_at timestamptz, p_processing_at timestamptz,
  p_tx_in_flight_at timestamptz, p_receipt_received_at timestamptz, p_finished_at timestamptz
)
  returns timestamptz language sql immutable parallel safe
return case p_status
  when 'queued' then p_queued_at when 'processing' then p_processing_at when 'tx_in_flight' then p_tx_in_flight_at
  when 'receipt_received' then p_receipt_received_at else p_finished_at
end;
