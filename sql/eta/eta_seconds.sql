-- eta_seconds: in how many seconds a request at this place is expected to be answered
--
-- `place` is one of readiness_queue, checking, tx_queue, tx_in_flight; an unknown place gives null. Times in
-- milliseconds, rates per second. A rate or concurrency that is null does not limit; one that is 0 stops, and the
-- answer is max_seconds. Source: the Retry-After design, its formulas and tables.
--
-- Exact: everything is brought onto one fraction of numerics and divided once, rounding up. (2500 ms and a margin of
-- 0.2 are 3 s, not 4; two messages at 3 per second and 1 s of work are 2 s, not 3.)
create or replace function tidegate.eta_seconds(
  place              text,
  queue_position     bigint,
  tx_queue_size      bigint,
  drain_tps          numeric,
  concurrency        integer,
  readiness_ms       integer,
  processing_ms      integer,
  tx_confirmation_ms integer,
  safety_margin      numeric,
  min_seconds        integer,
  max_seconds        integer
)
  returns integer
  language plpgsql
  immutable
  parallel safe
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_above numeric;  -- milliseconds, times every rate passed so far
  v_below numeric := 1000;
  v_ahead bigint;   -- messages to be drained at drain_tps before this one
begin
  case place
    when 'readiness_queue' then
      v_above := processing_ms::bigint + tx_confirmation_ms;
      v_ahead := coalesce(tx_queue_size, 0);
      if concurrency <= 0 then
        return max_seconds;
      elsif concurrency is not null then
        v_above := v_above * concurrency + coalesce(queue_position, 0) * 1000.0;
        v_below := v_below * concurrency;
      end if;
    when 'checking' then
      v_above := readiness_ms::bigint + processing_ms + tx_confirmation_ms;
      v_ahead := coalesce(tx_queue_size, 0);
    when 'tx_queue' then
      v_above := processing_ms::bigint + tx_confirmation_ms;
      v_ahead := coalesce(queue_position, 0);
    when 'tx_in_flight' then
      v_above := processing_ms;
    else
      return null;
  end case;

  if v_ahead is not null and drain_tps <= 0 then
    return max_seconds;
  elsif v_ahead is not null and drain_tps is not null then
    v_above := v_above * drain_tps + v_ahead * v_below;
    v_below := v_below * drain_tps;
  end if;
  v_above := v_above * (1 + safety_margin);

  return greatest(min_seconds, least(max_seconds, tidegate.whole_seconds(v_above, v_below)));
end;
$$;

comment on function tidegate.eta_seconds is
  'In how many seconds a request at this place is expected to be answered; pure, times in milliseconds.';
select tidegate_internal.allow('eta_seconds', '{reader,api,worker,admin}');
