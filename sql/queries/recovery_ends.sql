-- $1 run
select tidegate.recovery_ends($1);
