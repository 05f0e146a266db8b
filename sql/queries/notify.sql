-- $1 a channel
select pg_notify($1, '');
