-- of_fair_queues: A query of what all fair queues have in their tables of this prefix, in parentheses; a queue whose
-- tables have been dropped is left out.
--
-- `p_query` is a format whose first parameter is the queue and whose second is the table; `p_columns` are its columns.
create or replace function tidegate_internal.of_fair_queues(p_query text, p_prefix text, p_columns text)
  returns text language sql stable as $$
  select coalesce(
    E'(\n  ' || string_agg(format(p_query, q.name, p_prefix || q.name), E'\n  union all ' order by q.name) || E'\n)',
    format('(select * from jsonb_to_recordset(%L) as (%s))', '[]', p_columns)
  )
  from tidegate_internal.fair_queues() as q;
$$;
