-- eta_with_jitter: What a caller is told of an ETA that `request_outlooks` or a submission has computed: its seconds
-- have the jitter of its request.
--
-- The jitter is fixed per request: equal ETAs give equal answers, so a changed number means a changed ETA.
create or replace function tidegate_internal.eta_with_jitter(
  p_id uuid, p_seconds integer, p_spread_to double precision, p_p50_ms bigint, p_p90_ms bigint
)
  returns tidegate.retry_after language sql immutable parallel safe
return (
  tidegate_internal.spread_seconds(p_seconds, p_spread_to,
    (uuid_hash_extended(p_id, 0) & 2147483647) / 2147483648.0::float8),
  p_p50_ms, p_p90_ms
)::tidegate.retry_after;
