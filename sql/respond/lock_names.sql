-- lock_names: Locks names of one purpose to the end of the transaction: downstream references (`reference`), or
-- idempotency keys that a kind makes (`dedup`).
--
-- 256 stripes for each purpose, taken in key order: a lock for each name could exhaust the lock table, and two callers
-- with the same stripes in another order would wait for each other. Derived keys with time buckets need it, because two
-- first arrivals on either side of a bucket's edge insert two rows, and would not meet at either.
create or replace function tidegate_internal.lock_names(p_purpose text, p_names text[])
  returns void language plpgsql as $$
begin
  perform pg_advisory_xact_lock(hashtextextended('tidegate.' || p_purpose, 0) + s.stripe)
  from (
    select distinct (hashtext(n) & 255)::bigint as stripe from unnest(p_names) as n where n is not null order by stripe
  ) as s;
end;
$$;
