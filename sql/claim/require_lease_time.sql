-- require_lease_time: The length of a lease; raises TG007 unless it is of use (10 ms to one day).
create or replace function tidegate_internal.require_lease_time(p_lease_for interval)
  returns interval language plpgsql immutable as $$
begin
  if p_lease_for is null or p_lease_for < interval '10 milliseconds' or p_lease_for > interval '24 hours' then
    raise exception using errcode = 'TG007',
      message = format('a lease of %s is not between 10 milliseconds and one day', coalesce(p_lease_for::text, 'null'));
  end if;
  return p_lease_for;
end;
$$;
