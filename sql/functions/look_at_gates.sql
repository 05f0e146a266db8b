-- tidegate.look_at_gates: `look_at_gate` for every gate; a maintenance duty
--
-- Finds what nobody saw who came or went: two at once, a message removed by hand, other marks.
create or replace function tidegate.look_at_gates()
  returns bigint
  language sql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
  select count(*)
  from (select g.name from tidegate.gate as g where not g.forced order by g.name offset 0) as g
  where tidegate.look_at_gate(g.name);
$$;
