-- invariants: Every invariant: its name, its rule in words, and the query that lists its violations.
--
-- Each query answers with one column, `id`, a row for each violation, and may be run as it stands. What is legal for a
-- moment, such as a gate whose mark was reached just now, is no violation until it has lasted. Queries that read all
-- requests, or their history, are `by_request`: with `id_from` and `id_before` they read only the requests from the one
-- up to, but not including, the other; with the same for both, that request. The query of an invariant with a subject
-- is made of the `condition` that breaks it, on the rows of `source`, whose identifier is `row_id`: `check_invariants`
-- reads each source once. In conditions and queries `{message}` stands for all messages of all queues, `{turn}`,
-- `{arrival}` and `{keyed}` for the turns, the journals and the messages with their keys of all fair queues, `{of
-- r.id}` for the range of requests.
create or replace function tidegate.invariants(id_from uuid default null, id_before uuid default null)
  returns table (
    place integer, name text, rule text, query text, by_request boolean, source text, row_id text, condition text
  )
  language plpgsql stable security definer as $$
#variable_conflict use_column
declare
  v_message  text := (
    select string_agg(
      format(
        'select %L::text as queue, %L::text as stage, msg_id, enqueued_at, vt, '
          'tidegate.message_request_id(message) as request_id from %s',
        q.name, q.stage, tidegate_internal.queue_table(q.name)
      ),
      E'\n  union all ' order by q.name
    )
    from tidegate_internal.stored_queues() as q
  );
  v_requests constant text := '(select * from tidegate.request as r where {of r.id}) as r';
  -- Each step of a history with those before and after it, and with the row of its request. A request without a history
  -- has a row here, too. Both sides come in the order of their primary keys, which saves sorting them.
  v_steps    constant text := '(
  select
    coalesce(l.request_id, r.id) as request_id, l.transition_no, l.from_status, l.to_status, l.cause, l.attempt,
    l.previous_no, l.previous_status, l.previous_sends, l.next_no,
    r.flow, r.transition_no as row_transition_no, r.req_status as row_status, r.cause as row_cause,
    r.tx_attempt as row_tx_attempt, r.readiness_attempt as row_readiness_attempt
  from (
    select
      e.request_id, e.transition_no, e.from_status, e.to_status, e.cause, e.attempt,
      lag(e.transition_no, 1, 0) over life as previous_no, lag(e.to_status) over life as previous_status,
      -- Steps of the readiness stage count its checks.
      lag(case when ''queued'' in (e.from_status, e.to_status) then 0 else e.attempt end, 1, 0) over life
        as previous_sends,
      lead(e.transition_no) over life as next_no
    from tidegate.request_event as e
    where {of e.request_id}
    window life as (partition by e.request_id order by e.transition_no)
  ) as l
  full join (select * from tidegate.request as r where {of r.id}) as r on r.id = l.request_id
) as s';
  -- While maintenance evaluates gates each second, it gets 30 seconds for a gate that it has not reached.
  v_gates    constant text := '(
  select
    o.*, not o.forced and o.changed_at < o.since and not exists (
      select from tidegate.config_change as c
      where c.table_name = ''gate'' and c.row_key = o.name and c.at > o.since
    ) as is_settled
  from (
    select
      g.*, w.is_watched,
      statement_timestamp() - case when w.is_watched then interval ''30 seconds'' else ''1 second'' end as since
    from tidegate.gate as g
    cross join (
      select exists (
        select from tidegate.maintenance as d
        where d.duty = ''gates_evaluate'' and d.ran_at > statement_timestamp() - interval ''5 seconds''
      ) as is_watched
    ) as w
  ) as o
) as g';
  v_range    constant text := case
    when id_from = id_before then E'\\1 = ' || quote_literal(id_from)
    else coalesce(nullif(concat_ws(
      ' and ', E'\\1 >= ' || quote_literal(id_from), E'\\1 < ' || quote_literal(id_before)
    ), ''), 'true')
  end;
  v_of       constant text := '[{]of ([a-z_.]+)[}]';
begin
  v_message := E'(\n  ' || coalesce(
    v_message,
    'select null::text as queue, null::text as stage, null::bigint as msg_id, null::timestamptz as enqueued_at, '
      'null::timestamptz as vt, null::uuid as request_id where false'
  ) || E'\n)';
  return query
    select
      row_number() over (order by i.chapter, i.ordinality)::integer, i.name, i.rule,
      regexp_replace(t.query, v_of, v_range, 'g'),
      t.query ~ v_of, regexp_replace(o.source, v_of, v_range, 'g'), o.row_id,
      case when o.source is not null then c.condition end
    from (
      select 1 as chapter, * from tidegate_internal.invariants_of_queues() with ordinality
      union all select 2, * from tidegate_internal.invariants_of_turns() with ordinality
      union all select 3, * from tidegate_internal.invariants_of_history() with ordinality
      union all select 4, * from tidegate_internal.invariants_of_requests() with ordinality
      union all select 5, * from tidegate_internal.invariants_of_configuration() with ordinality
      union all select 6, * from tidegate_internal.invariants_of_schema() with ordinality
      union all
      select 7, c.name, c.rule, null, c.query, row_number() over (order by s.schema, c.ordinality)
      from tidegate.schema_state as s
      cross join lateral rows from (jsonb_to_recordset(s.checks) as (name text, rule text, query text))
        with ordinality as c
      where to_regnamespace(s.schema) is not null
    ) as i
    left join (
      values
        ('request', v_requests, 'r.id::text'),
        ('step', v_steps, 'concat_ws('' '', s.request_id, s.transition_no)'),
        ('message', v_message || E' as m\nleft join tidegate.request as r on r.id = m.request_id',
          'concat_ws('' '', m.queue, m.msg_id)'),
        ('queue', 'tidegate.queue as q', 'q.name'),
        ('gate', v_gates, 'g.name'),
        ('kind', 'tidegate.kind as k', 'k.name'),
        ('policy', 'tidegate.policy as p', 'concat_ws('' '', p.kind, p.stage)'),
        ('breaker', 'tidegate.breaker as b', 'concat_ws('' '', b.kind, b.stage)')
    ) as o(subject, source, row_id) on o.subject = i.subject
    cross join lateral (
      values (replace(tidegate_internal.with_turns(btrim(i.query, E' \n')), '{message}', v_message))
    ) as c(condition)
    cross join lateral (
      values (concat(E'select ' || o.row_id || E' as id\nfrom ' || o.source || E'\nwhere ', c.condition))
    ) as t(query);
end;
$$;
select tidegate_internal.allow('invariants', '{reader,admin}');
