-- no parameters
select name, says, violations, samples, query from tidegate.invariant_violation order by place;
