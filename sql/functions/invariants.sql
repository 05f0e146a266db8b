-- tidegate.invariants: everything that must hold at any moment: its name, what it says, and the query that shows what breaks it
--
-- Each query answers with one column, `id`, a row for each violation, and may be run as it stands. What is legal for a
-- moment, such as a gate whose mark was reached just now, is no violation until it has lasted. Queries that read all
-- requests, or their history, are `by_request`: with `id_from` and `id_before` they read only the requests from the one up to,
-- but not including, the other; when `shared`, from the relations `request_slice` and `step_slice`, which `check_invariants`
-- defines around them.
-- Earlier versions have other parameters; the views that stand on them are made again.
drop function if exists tidegate.invariants() cascade;
drop function if exists tidegate.invariants(uuid, uuid) cascade;

create or replace function tidegate.invariants(
  id_from   uuid default null,
  id_before uuid default null,
  shared    boolean default false
)
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
  -- `{request}` and `{step}` stand for the requests and the history in it, each step with what the row of its request says.
  v_request text := 'tidegate.request';
  v_step    text := E'(
  select
    e.*, e.transition_no = r.transition_no as is_latest, e.transition_no > r.transition_no as is_beyond,
    r.flow as row_flow, r.tx_attempt as row_tx_attempt, r.readiness_attempt as row_readiness_attempt
  from tidegate.request_event as e
  left join tidegate.request as r on r.id = e.request_id
  where {of e.request_id}
)';
begin
  v_message := E'(\n  ' || coalesce(
    v_message,
    'select null::text as queue, null::text as stage, null::bigint as msg_id, null::timestamptz as enqueued_at, '
      'null::timestamptz as vt, null::jsonb as headers, null::uuid as request_id where false'
  ) || E'\n)';
  if shared then
    v_request := 'request_slice';
    v_step := 'step_slice';
  elsif v_range <> '' then
    v_request := '(select * from tidegate.request as r where {of r.id})';
  end if;
  return query
    select
      row_number() over (order by i.chapter, i.line)::integer, i.name, i.says,
      replace(
        case v_range
          when '' then regexp_replace(q.query, v_all, '', 'g')
          else regexp_replace(q.query, v_of, v_range, 'g')
        end,
        '{message}', v_message
      ),
      i.query like any (array['%{of %', '%{request}%', '%{step}%'])
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
    ) as i
    cross join lateral (
      values (replace(replace(btrim(i.query, E' \n'), '{request}', v_request), '{step}', v_step))
    ) as q(query);
end;
$$;
