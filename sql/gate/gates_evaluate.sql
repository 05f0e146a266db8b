-- gates_evaluate: Maintenance duty: closes and opens gates whose marks have been passed unseen.
--
-- Finds what nobody saw who came or went: two at once, a message removed by hand, other marks. Waits for nobody.
create or replace function tidegate.gates_evaluate()
  returns bigint
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
  set jit = off
as $$
declare
  v_gate    text;
  v_flipped bigint := 0;
begin
  for v_gate in select g.name from tidegate.gate as g where not g.forced order by g.name loop
    -- One that cannot be looked at does not keep the others from it.
    begin
      v_flipped := v_flipped + tidegate_internal.gate_evaluate(v_gate, null, interval '0')::integer;
    exception when others then
      raise warning 'gate "%": %', v_gate, sqlerrm;
    end;
  end loop;
  return v_flipped;
end;
$$;
select tidegate_internal.allow('gates_evaluate', '{api,worker,admin}');
