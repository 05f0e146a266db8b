-- bounded_seconds: A Retry-After from a fraction of seconds, rounded up, between the smallest and the largest answer.
--
-- The largest where `below` is null: nothing leaves the queue. An expression, which PostgreSQL puts in place of the
-- call.
create or replace function tidegate.bounded_seconds(above numeric, below numeric, min_seconds integer,
  max_seconds integer)
  returns integer language sql immutable parallel safe
return greatest(min_seconds, least(max_seconds, tidegate.whole_seconds(above, below)))::integer;
select tidegate_internal.allow('bounded_seconds', '{reader,api,worker,admin}');
