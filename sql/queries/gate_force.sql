-- $1 queue, $2 state or null, $3 actor
select tidegate.gate_force($1, $2, $3);
