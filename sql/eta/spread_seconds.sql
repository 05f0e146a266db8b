-- spread_seconds: a whole second between two, at random: callers who are told the same do not come back at once
--
-- Never before `from_seconds`; a fraction of a second above it becomes a whole one as often as it is large.
create or replace function tidegate.spread_seconds(from_seconds integer, to_seconds numeric)
  returns integer
  language sql
  volatile
return from_seconds + floor(random() * greatest(to_seconds - from_seconds, 0) + random())::integer;

comment on function tidegate.spread_seconds is
  'A whole second between two, at random: callers who are told the same do not come back at once.';
select tidegate_internal.allow('spread_seconds', '{reader,api,worker,admin}');
