-- lock_references: Takes the locks of downstream references, to the end of the transaction.
--
-- 256 stripes, taken in key order: a lock per reference could exhaust the lock table, and two callers with the same
-- stripes in another order would wait for each other.
create or replace function tidegate_internal.lock_references(p_references text[])
  returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_stripe bigint;
begin
  for v_stripe in
    select distinct (hashtext(reference) & 255)::bigint as stripe
    from unnest(p_references) as reference
    where reference is not null
    order by stripe
  loop
    perform pg_advisory_xact_lock(hashtextextended('tidegate.reference', 0) + v_stripe);
  end loop;
end;
$$;
