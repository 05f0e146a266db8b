-- Comments on the tables of this folder's subject.

-- table installation: Which database this is, and whether it is quarantined; written by adopt and quarantine.
--   only_row: Always true: there is one row.
--   system_identifier: Of the cluster, as initdb made it; null: not known yet.
--   database_oid: The object identifier of the database.
--   table_oid: The object identifier of this table.
--   quarantined_at: Since when nothing is sent from it; null: it is not quarantined.
--   quarantined_because: Why.
