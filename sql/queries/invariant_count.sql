-- no parameters
select count(*) from tidegate.invariant;
