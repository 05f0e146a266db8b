-- lease_watermark: Before which instant no claim of a queue searches for leases that ran out (see `claim_finish`).
--
-- In PL/pgSQL, which keeps its plan: PostgreSQL cannot put the expression in place of the call, because reading a
-- sequence is volatile.
create or replace function tidegate_internal.lease_watermark(p_queue text)
  returns timestamptz language plpgsql stable as $$
begin
  return to_timestamp(
    coalesce(pg_sequence_last_value(tidegate_internal.queue_counter(p_queue, 'lease_watermark')), 0) / 1000000.0
  );
end;
$$;
