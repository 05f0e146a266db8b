-- close_caps: closes the caps that a submission has filled: with `p_added` more, their counted depth is at the mark
create or replace function tidegate_internal.close_caps(p_admission tidegate.admission, p_added bigint)
  returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
begin
  if p_admission.room <= p_added then
    perform tidegate_internal.gate_flip(c.gate, 'too_many_requests', c.depth + p_added)
    from unnest(p_admission.counted, p_admission.depths) as c(gate, depth);
  end if;
end;
$$;

comment on function tidegate_internal.close_caps is 'Closes the caps that a submission has filled.';
