-- invariant_violation: The broken invariants, in one snapshot; empty when all hold.
create or replace view tidegate.invariant_violation as
select c.name, c.says, c.violations, c.samples, c.query, c.place from tidegate.check_invariants() as c;
comment on column tidegate.invariant_violation.name is 'The name of the invariant.';
comment on column tidegate.invariant_violation.says is 'The rule of the invariant, in words.';
comment on column tidegate.invariant_violation.violations is 'How often it is broken.';
comment on column tidegate.invariant_violation.samples is 'First ten: requests, messages (queue, number), names.';
comment on column tidegate.invariant_violation.query is 'The query that shows them all.';
comment on column tidegate.invariant_violation.place is 'Its place in the list of invariants.';
