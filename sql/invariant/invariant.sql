-- invariant: Every invariant, with the query that lists its violations.
create or replace view tidegate.invariant as
select i.place, i.name, i.says, i.query, i.by_request from tidegate.invariants() as i;
comment on column tidegate.invariant.place is 'Its place in the list.';
comment on column tidegate.invariant.name is 'Its name: the state that breaks it.';
comment on column tidegate.invariant.says is 'The rule, in words.';
comment on column tidegate.invariant.query is 'A query that answers with a row for each violation.';
comment on column tidegate.invariant.by_request is 'Whether a range of requests can be checked alone.';
