-- Whether this session may only read: a standby, or a database that is set so.
select current_setting('transaction_read_only')::boolean;
