-- $1 how long each statement of this transaction may run, in milliseconds
select pg_current_xact_id()::text from set_config('statement_timeout', $1::bigint::text, true);
