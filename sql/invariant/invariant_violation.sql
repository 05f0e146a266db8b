-- invariant_violation: The broken invariants, in one snapshot; empty when all hold.
--
--   name: The name of the invariant.
--   rule: The rule of the invariant, in words.
--   violations: How often it is broken.
--   samples: First ten: requests, messages (queue, number), names.
--   query: The query that shows them all.
--   place: Its place in the list of invariants.
create or replace view tidegate.invariant_violation as
select c.name, c.rule, c.violations, c.samples, c.query, c.place from tidegate.check_invariants() as c;
