-- close_gates: closes the gates that a submission has found full, or has filled with the `p_added` requests that it let in
--
-- At the depth that the submission counted: by now workers may have taken some of it, and each count after the next would find
-- less than the mark, while callers are refused.
create or replace function tidegate_internal.close_gates(p_admission tidegate.admission, p_added bigint)
  returns void
  language sql
  set search_path = pg_catalog, pg_temp
as $$
  select tidegate_internal.gate_flip(c.gate, 'too_many_requests', c.depth + p_added)
  from unnest(p_admission.counted, p_admission.depths) as c(gate, depth);
$$;

comment on function tidegate_internal.close_gates is 'Closes the gates that a submission has found full or has filled.';
