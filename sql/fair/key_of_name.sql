-- key_of_name: The fairness key of a submitter or kind in a fair queue.
--
-- Raises TG005 for an unknown queue, TG002 for an unknown kind, TG007 for a fifo queue.
create or replace function tidegate_internal.key_of_name(p_queue text, p_name text)
  returns bigint language plpgsql stable as $$
declare
  v_fair_by constant text := (tidegate_internal.require_fair_queue(p_queue)).fair_by;
begin
  perform tidegate_internal.require_kind(p_name) where v_fair_by = 'kind';
  return tidegate_internal.fair_key(v_fair_by, nullif(p_name, ''), p_name);
end;
$$;
