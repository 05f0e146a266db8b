-- kinds_of_queue: The kinds whose requests a queue may hold: those that use it, and those that have ever used it.
--
-- Requests stay where they are when their kind is pointed elsewhere.
create or replace function tidegate_internal.kinds_of_queue(p_queue text, p_stage tidegate.stage)
  returns setof text language sql stable as $$
  select k.name
  from tidegate.kind as k
  where case p_stage when 'tx' then k.tx_queue else k.readiness_queue end = p_queue
    or k.name = any(array(
      select c.row_key
      from tidegate.config_change as c
      where c.table_name = 'kind' and c.old_value = p_queue
        and c.column_name = case p_stage when 'tx' then 'tx_queue' else 'readiness_queue' end
    ));
$$;
