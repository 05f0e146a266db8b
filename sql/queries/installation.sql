-- ready: The fingerprint of the schema that is applied, whether this session may only read (a standby, or a database
-- set so), and what of the schema is missing.
select
  fingerprint, current_setting('transaction_read_only')::boolean as read_only,
  (select string_agg(m, ', ') from (select m from tidegate.schema_missing() as m limit 3) as m) as missing
from tidegate.schema_state
where schema = 'tidegate';

-- notice_copy
select quarantined_at, because from tidegate.notice_copy();

-- quarantine_state
select since as quarantined_at, because from tidegate.quarantine_state;

-- quarantine: $1 reason, $2 actor
select tidegate.quarantine($1, $2);

-- adopt: $1 actor
select tidegate.adopt($1);
