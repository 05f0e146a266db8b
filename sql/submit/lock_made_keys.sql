-- lock_made_keys: The locks under which first arrivals of made keys in time buckets come one after the other.
--
-- For kinds with time buckets: two first arrivals on either side of a bucket's edge insert two rows, and would not meet
-- at either. 256 stripes, in key order, as `lock_references` has them.
create or replace function tidegate_internal.lock_made_keys(p_made text[])
  returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_stripe bigint;
begin
  for v_stripe in
    select distinct (hashtext(made) & 255)::bigint as stripe from unnest(p_made) as made where made is not null
      order by stripe
  loop
    perform pg_advisory_xact_lock(hashtextextended('tidegate.dedup', 0) + v_stripe);
  end loop;
end;
$$;
