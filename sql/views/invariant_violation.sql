-- tidegate.invariant_violation: what must hold and does not, in one snapshot; empty when all is well
create or replace view tidegate.invariant_violation as
select c.name, c.says, c.violations, c.samples, c.query, c.place from tidegate.check_invariants() as c;
