-- lock_recovery_shared: To the end of the transaction, no request that has lost its message gets one again.
--
-- For whoever is about to lock the rows of several requests. They lock the messages first, and nobody who claims comes
-- between; but where a message is lost, there is only the row. Did `recover` make it again meanwhile, a claim could
-- take it, lock that row, and wait for another one of theirs while they wait for this one.
create or replace function tidegate_internal.lock_recovery_shared()
  returns void
  language sql
return pg_advisory_xact_lock_shared(hashtextextended('tidegate.recover', 0));
