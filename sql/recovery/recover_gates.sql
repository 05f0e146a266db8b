-- recover_gates: Closes and opens gates whose depth has passed a mark; returns how many.
--
-- As maintenance does every second. `dry_run` counts them and changes nothing. `run` is the record that counts them.
create or replace function tidegate.recover_gates(dry_run boolean default false, run bigint default null)
  returns bigint language plpgsql security definer as $$
declare
  v_flipped bigint;
begin
  if dry_run then
    return (
      select count(*)
      from tidegate.gate as g
      where not g.forced and case g.state
        when 'accepting' then tidegate_internal.gate_depth(g, g.high_water + 1) >= g.high_water
        else tidegate_internal.gate_count(g, g.low_water + 1) <= g.low_water
      end
    );
  end if;
  v_flipped := tidegate.gates_evaluate();
  perform tidegate_internal.record_recovery(run, jsonb_build_object('gates', v_flipped));
  return v_flipped;
end;
$$;
select tidegate_internal.allow('recover_gates', '{admin}');
