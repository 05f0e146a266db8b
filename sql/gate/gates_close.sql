-- gates_close: Closes the gates that a submission has found full, or has filled with the `p_added` requests that it let
-- in.
--
-- By the depths that the submission counted. A new count may find less, because workers drain, and then the gate would
-- stay open while it refuses callers.
create or replace function tidegate_internal.gates_close(p_admission tidegate.admission, p_added bigint)
  returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
begin
  perform tidegate_internal.gate_flip(c.gate, 'too_many_requests', c.depth + p_added)
  from unnest(p_admission.counted, p_admission.depths) as c(gate, depth);
end;
$$;
