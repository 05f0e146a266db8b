-- longest_deadline: The longest deadline that a live request may have: it keeps the one of its submission.
create or replace function tidegate_internal.longest_deadline()
  returns interval language plpgsql stable as $$
begin
  return greatest(
    (select max(k.deadline) from tidegate.kind as k),
    (
      select max(c.old_value::interval)
      from tidegate.config_change as c
      where c.table_name = 'kind' and c.column_name = 'deadline'
        and c.at > tidegate.clock() - case when c.column_name = 'deadline' then c.old_value::interval end
    )
  );
end;
$$;
