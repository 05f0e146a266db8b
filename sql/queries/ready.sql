-- The fingerprint of the schema that is applied, and whether this session may only read: a standby, or a database set
-- so.
select fingerprint, current_setting('transaction_read_only')::boolean as read_only
from tidegate.schema_state
where schema = 'tidegate';
