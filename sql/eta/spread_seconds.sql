-- spread_seconds: A whole second between two, by a share from 0 to 1, which keeps callers with equal ETAs apart.
--
-- Never before `p_from`; `p_to`, rounded up, at the latest.
create or replace function tidegate_internal.spread_seconds(
  p_from integer, p_to double precision, p_share double precision
)
  returns integer language plpgsql immutable parallel safe as $$
begin
  return p_from + floor(p_share * (greatest(p_to - p_from, 0) + 1))::integer;
end;
$$;
