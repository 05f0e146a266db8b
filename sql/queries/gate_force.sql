-- $1 the name of a gate, $2 state or null, $3 actor
select tidegate.gate_force($1, $2, $3);
