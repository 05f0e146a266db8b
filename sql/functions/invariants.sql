-- tidegate.invariants: everything that must hold at any moment: its name, what it says, and the query that shows what breaks it
--
-- Each query answers with one column, `id`, a row for each violation, and may be run as it stands. What is legal for a
-- moment, such as a gate whose mark was reached just now, is no violation until it has lasted. Queries that read all
-- requests, or their history, are `by_request`: with `id_from` and `id_before` they read only the requests from the one up to,
-- but not including, the other.
-- An earlier version has no parameters; the views that stand on it are made again.
drop function if exists tidegate.invariants() cascade;

create or replace function tidegate.invariants(id_from uuid default null, id_before uuid default null)
  returns table (place integer, name text, says text, query text, by_request boolean)
  language plpgsql
  stable
  security definer
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_message text := (
    select string_agg(
      format(
        'select %L::text as queue, %L::text as stage, msg_id, enqueued_at, vt, headers, '
          'tidegate.message_request_id(message) as request_id from %s',
        q.name, q.stage, tidegate.queue_table(q.name)
      ),
      E'\n  union all ' order by q.name
    )
    from tidegate.queue as q
    where to_regclass(tidegate.queue_table(q.name)) is not null
  );
  -- `{of r.id}` stands for the range, and goes with its "and" or "where" when there is none.
  v_of      constant text := '[{]of ([a-z_.]+)[}]';
  v_all     constant text := format(
    'where %1$s(?![[:space:]]+and)|%1$s[[:space:]]+and[[:space:]]+|[[:space:]]+and[[:space:]]+%1$s', v_of
  );
  v_range   constant text := concat_ws(
    ' and ', E'\\1 >= ' || quote_literal(id_from), E'\\1 < ' || quote_literal(id_before)
  );
begin
  v_message := E'(\n  ' || coalesce(
    v_message,
    'select null::text as queue, null::text as stage, null::bigint as msg_id, null::timestamptz as enqueued_at, '
      'null::timestamptz as vt, null::jsonb as headers, null::uuid as request_id where false'
  ) || E'\n)';
  return query
    select
      row_number() over (order by i.chapter, i.line)::integer, i.name, i.says,
      replace(
        case v_range
          when '' then regexp_replace(btrim(i.query, E' \n'), v_all, '', 'g')
          else regexp_replace(btrim(i.query, E' \n'), v_of, v_range, 'g')
        end,
        '{message}', v_message
      ),
      i.query like '%{of %'
    from (
      select 1 as chapter, * from tidegate.invariants_of_queues() with ordinality as q(name, says, query, line)
      union all
      select 2, * from tidegate.invariants_of_history() with ordinality as h(name, says, query, line)
      union all
      select 3, * from tidegate.invariants_of_requests() with ordinality as r(name, says, query, line)
      union all
      select 4, * from tidegate.invariants_of_configuration() with ordinality as c(name, says, query, line)
      union all
      select 5, * from tidegate.invariants_of_schema() with ordinality as s(name, says, query, line)
    ) as i;
end;
$$;
