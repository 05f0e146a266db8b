-- lock_outcomes: Takes the locks of a settle with outcomes of several sorts, in the order of all transactions.
--
-- Each sort takes the same locks again, without a wait.
create or replace function tidegate_internal.lock_outcomes(
  p_leases tidegate.lease[], p_outcomes text[], p_refs text[]
)
  returns void language plpgsql as $$
begin
  perform tidegate_internal.lock_names('reference', p_refs);
  perform from tidegate_internal.lock_held(p_leases);
  -- One sort may wait for a drain, and the next put messages back.
  if 'released' = any(p_outcomes) and p_outcomes && '{snoozed,retry}' then
    perform pg_advisory_xact_lock(tidegate.queue_lock_key(tidegate_internal.lease_queue(p_leases), 'watermark'));
  end if;
end;
$$;
select tidegate_internal.plan_along_indexes('lock_outcomes');
