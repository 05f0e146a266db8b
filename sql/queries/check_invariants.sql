-- $1 names, $2 from, $3 before
select name, violations, samples from tidegate.check_invariants($1, $2, $3);
