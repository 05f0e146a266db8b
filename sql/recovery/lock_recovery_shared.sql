-- lock_recovery_shared: Keeps `recover` from making lost messages again until the transaction ends.
--
-- For transactions that lock the rows of several requests. They lock the messages first, which keeps claims away; but a
-- lost message leaves only the row. If `recover` made it again meanwhile, a claim could take it, lock that row, and
-- wait for another row of the transaction: a deadlock.
create or replace function tidegate_internal.lock_recovery_shared()
  returns void language sql
return pg_advisory_xact_lock_shared(hashtextextended('tidegate.recover', 0));
