-- longest_window: The longest window of idempotency keys of a kind that stand now: they keep the window of their time.
create or replace function tidegate_internal.longest_window(p_kind text)
  returns interval language plpgsql stable as $$
begin
  return greatest(
    (select p.dedup_window from tidegate.policy as p where p.kind = p_kind and p.stage = 'tx'),
    (
      select max(c.old_value::interval)
      from tidegate.config_change as c
      where c.table_name = 'policy' and c.row_key = p_kind || '.tx' and c.column_name = 'dedup_window'
        and c.at > tidegate.clock() - case when c.column_name = 'dedup_window' then c.old_value::interval end
    )
  );
end;
$$;
