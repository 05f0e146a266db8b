-- backoff: How long to wait before the next attempt, after the `attempt`-th (from 1).
--
-- min(cap, base · factor^(attempt-1)) plus jitter, the sum kept within [0, cap]. `random` is in [-1, 1). The power
-- is capped before it is raised, so no attempt number overflows.
create or replace function tidegate_internal.backoff(
  attempt integer, base_ms integer, factor numeric, cap_ms integer, jitter_ms integer, random float8
)
  returns interval language sql immutable parallel safe
return (
  make_interval(secs => greatest(0, least(cap_ms,
    case
      when base_ms = 0 then 0
      when greatest(attempt - 1, 0) * ln(factor::float8) > ln(greatest(cap_ms, 1)::float8 / base_ms) then cap_ms
      else base_ms * power(factor::float8, greatest(attempt - 1, 0))
    end + jitter_ms * random
  )) / 1000)
);
