-- tidegate.check_invariants: every invariant that does not hold, in one snapshot
--
-- `violations` counts what breaks it, `samples` are the first ten of those, `query` shows them all. Changes nothing, and locks
-- nothing. Reads every request, message and step of history: seconds for a million requests. For more of them it is asked in
-- steps, as `tidegate doctor` does: `names` says which invariants (null: all), `id_from` and `id_before` of which requests those
-- are asked that are `by_request`. These are asked in one statement, which reads the requests and their history once for all of
-- them; when it fails, and without a range, each is asked by itself. A query that fails then counts as a violation, with what
-- the database said as its sample; one that fails because a queue's table has gone since is asked again without it.
-- An earlier version has no parameters; the view that stands on it is made again.
drop function if exists tidegate.check_invariants() cascade;

create or replace function tidegate.check_invariants(
  names     text[] default null,
  id_from   uuid default null,
  id_before uuid default null
)
  returns table (place integer, name text, says text, violations bigint, samples text[], query text)
  language plpgsql
  stable
  security definer
  set search_path = pg_catalog, pg_temp
  set jit = off
  set work_mem = '64MB'
  -- A slice is joined by hash: of what a statement has materialised the planner knows no order and no distribution.
  set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_count constant text := 'select count(*), (array_agg(v.id order by v.id))[1:10] from (%s) as v';
  v_range constant text := concat_ws(
    ' and ', '%1$I >= ' || quote_literal(check_invariants.id_from), '%1$I < ' || quote_literal(check_invariants.id_before)
  );
  v_asked     text[] := '{}';
  v_queries   text;
  v_invariant record;
begin
  if v_range <> '' then
    begin
      select
        coalesce(array_agg(i.name), '{}'),
        coalesce(
          string_agg(format('select %L as name, v.id from (%s) as v', i.name, i.query), ' union all '),
          'select null, null'
        )
      into v_asked, v_queries
      from tidegate.invariants(check_invariants.id_from, check_invariants.id_before, true) as i
      where i.by_request and (names is null or i.name = any(names));
      return query execute format(
        'with request_slice as materialized (
           select
             id, kind, flow, req_status, transition_no, cause, queue, msg_id, tx_attempt, tx_unsent, readiness_attempt,
             readiness_waits, submitted_at, queued_at, processing_at, tx_in_flight_at, receipt_received_at, finished_at,
             deadline_at, readiness_deadline_at, reference, response_threshold, callback_url,
             case when response is not null then true end as response
           from tidegate.request
           where %s
         ), step_slice as materialized (
           select
             e.request_id, e.transition_no, e.from_status, e.to_status, e.cause, e.attempt,
             e.transition_no = r.transition_no as is_latest, e.transition_no > r.transition_no as is_beyond,
             r.flow as row_flow, r.tx_attempt as row_tx_attempt, r.readiness_attempt as row_readiness_attempt
           from tidegate.request_event as e
           left join request_slice as r on r.id = e.request_id
           where %s
         )
         select i.place, i.name, i.says, b.violations, b.samples, i.query
         from (
           select v.name, count(*) as violations, (array_agg(v.id order by v.id))[1:10] as samples
           from (%s) as v
           group by v.name
         ) as b
         join tidegate.invariants(%L, %L) as i on i.name = b.name',
        format(v_range, 'id'), format(v_range, 'request_id'), v_queries, check_invariants.id_from,
        check_invariants.id_before
      );
    exception when others then
      v_asked := '{}';
    end;
  end if;
  for v_invariant in
    select * from tidegate.invariants(check_invariants.id_from, check_invariants.id_before) as i
    where (names is null or i.name = any(names)) and i.name <> all(v_asked)
    order by i.place
  loop
    place := v_invariant.place;
    name := v_invariant.name;
    says := v_invariant.says;
    query := v_invariant.query;
    begin
      begin
        execute format(v_count, v_invariant.query) into violations, samples;
      exception when undefined_table then
        execute format(v_count, (
          select i.query
          from tidegate.invariants(check_invariants.id_from, check_invariants.id_before) as i
          where i.name = v_invariant.name
        )) into violations, samples;
      end;
    exception when others then
      violations := 1;
      samples := array[format('it could not be checked: %s', sqlerrm)];
    end;
    if violations > 0 then
      return next;
    end if;
  end loop;
end;
$$;
