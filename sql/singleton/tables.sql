-- Comments on the tables of this folder's subject.

-- table singleton: One row per task that one process of the fleet runs at a time; written by lease_take, never deleted.
--   name: The task.
--   epoch: How many leases it has had; that of the last one.
--   holder: The process that took the last lease.
--   taken_at: When it did.
--   until: When that lease runs out, unless it is kept; or when it was released.
--   lease_ms: How long it lasts from its beginning or the last time that it was kept.
