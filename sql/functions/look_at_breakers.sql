-- tidegate.look_at_breakers: `look_at_breaker` for every breaker; a maintenance duty; returns how many flipped
create or replace function tidegate.look_at_breakers()
  returns bigint
  language sql
  security definer
  set search_path = pg_catalog, pg_temp
  set jit = off
as $$
  select count(*)
  from (select b.kind, b.stage from tidegate.breaker as b where b.state <> 'half_open' order by b.kind, b.stage) as known
  where tidegate.look_at_breaker(known.kind, known.stage, clock_timestamp());
$$;
