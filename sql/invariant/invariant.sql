-- invariant: Every invariant, with the query that lists its violations.
--
--   place: Its place in the list.
--   name: Its name: the state that breaks it.
--   rule: The rule, in words.
--   query: A query that answers with a row for each violation.
--   by_request: Whether a range of requests can be checked alone.
create or replace view tidegate.invariant as
select i.place, i.name, i.rule, i.query, i.by_request from tidegate.invariants() as i;
