-- $1 how long a statement of this transaction may take
select set_config('statement_timeout', $1, true);
