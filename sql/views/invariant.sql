-- tidegate.invariant: everything that must hold, and the query that shows what breaks it
create or replace view tidegate.invariant as
select i.place, i.name, i.says, i.query, i.by_request from tidegate.invariants() as i;
