-- gates_evaluate: Maintenance duty: closes and opens gates whose marks have been passed unnoticed; returns how many
-- flipped.
--
-- For concurrent removals, messages removed by hand and changed marks. Waits for no lock.
create or replace function tidegate.gates_evaluate()
  returns bigint language plpgsql security definer as $$
declare
  v_gate    text;
  v_flipped bigint := 0;
begin
  for v_gate in select g.name from tidegate.gate as g where not g.forced order by g.name loop
    -- An error at one gate does not keep the others from being evaluated.
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
