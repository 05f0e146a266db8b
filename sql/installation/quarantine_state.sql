-- quarantine_state: One row while nothing is sent from this database, no row otherwise.
--
-- A restore makes the table anew, so a copy is known before any program has looked at it. Claims ask, so this costs a
-- read of one row.
--
--   since: Since when; null: since it was restored, and no program has looked at it yet.
--   because: Why.
create or replace view tidegate.quarantine_state as
select
  i.quarantined_at as since,
  coalesce(i.quarantined_because, 'it was restored from a dump: its tables are not those that were recorded') as because
from tidegate.installation as i
where i.quarantined_at is not null or i.table_oid <> i.tableoid;
