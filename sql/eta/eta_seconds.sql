-- eta_seconds: In how many seconds a request at this place is expected to be answered; pure, times in milliseconds.
--
-- `place` is one of readiness_queue, checking, tx_queue, tx_in_flight; an unknown place gives null. Times in
-- milliseconds, rates per second. A rate or concurrency that is null does not limit; one that is 0 stops, and the
-- answer is max_seconds. Source: the Retry-After design, its formulas and tables.
create or replace function tidegate.eta_seconds(
  place text, queue_position bigint, tx_queue_size bigint, drain_tps numeric, concurrency integer, readiness_ms integer,
  processing_ms integer, tx_confirmation_ms integer, safety_margin numeric, min_seconds integer, max_seconds integer
)
  returns integer language plpgsql immutable parallel safe as $$
begin
  return (
    select tidegate.bounded_seconds(l.first + l.each * coalesce(queue_position, 0), l.below, min_seconds, max_seconds)
    from tidegate.eta_line(
      place, tx_queue_size, drain_tps, concurrency, readiness_ms, processing_ms, tx_confirmation_ms, safety_margin
    ) as l
    where l.first is not null
  );
end;
$$;
select tidegate_internal.allow('eta_seconds', '{reader,api,worker,admin}');
