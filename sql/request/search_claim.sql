-- search_claim: For workers: at most `batch` unresolved requests of these kinds whose receipts are to be searched for
-- now; empty: none is due.
--
-- A request is searched for a second after its end, and then after twice the time each time, up to ten minutes, for
-- its kind's `resolve_for` (null: as long as its key can stand), unless it was repeated: then its repeat
-- decides. The next search is due only once this one has had its time, so a worker that dies delays it and no more.
-- Nothing is searched for while the kind's breaker is open, or from a quarantined database.
create or replace function tidegate.search_claim(kinds text[], batch integer default 100)
  returns table (
    id uuid, send_id uuid, kind text, payload jsonb, submitter text, attempt integer, deadline_at timestamptz,
    timeout_ms integer, connect_ms integer, first_byte_ms integer, body_ms integer
  )
  language plpgsql security definer
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_now   constant timestamptz := tidegate.clock();
  v_left  integer := search_claim.batch;
  v_kind  text;
  v_found integer;
begin
  -- In no order, so that each kind has its turn.
  for v_kind in
    select k.name
    from unnest(search_claim.kinds) as k(name)
    where not exists (select from tidegate.quarantine_state) and exists (
      select from tidegate.outcome as o where o.kind = k.name and o.executed = 'unknown' and o.search_at <= v_now
    )
    order by random()
  loop
    exit when v_left < 1;
    continue when tidegate.breaker_blocks(v_kind, 'tx');
    return query
      with due as materialized (
        select o.request_id
        from tidegate.outcome as o
        where o.kind = v_kind and o.executed = 'unknown' and o.search_at <= v_now
        order by o.search_at
        limit v_left
        for update skip locked
      ), judged as materialized (
        select
          d.request_id, p.timeout_ms, p.connect_ms, p.first_byte_ms, p.body_ms,
          not tidegate_internal.is_repeated(d.request_id)
            and case
              when k.resolve_for is not null then v_now - r.finished_at < k.resolve_for
              else k.key_after_unknown = 'resolved'
                or v_now < tidegate_internal.window_end(r.finished_at, w.dedup_window)
            end as goes_on
        from due as d
        join tidegate.request as r on r.id = d.request_id
        join tidegate.kind as k on k.name = r.kind
        join tidegate.policy as w on w.kind = r.kind and w.stage = 'tx'
        join tidegate.policy_in_force as p on p.kind = r.kind and p.stage = 'tx'
      ), claimed as (
        update tidegate.outcome as o
        set
          searches = o.searches + j.goes_on::integer,
          search_at = case when j.goes_on then
            v_now + make_interval(secs => j.timeout_ms / 1000.0 + least(2 ^ least(o.searches, 20), 600))
          end
        from judged as j
        where o.request_id = j.request_id
        returning o.request_id, j.goes_on
      )
      select
        r.id, coalesce(r.send_id, r.id), r.kind, r.payload, r.submitter, r.tx_attempt, r.deadline_at, j.timeout_ms,
        j.connect_ms, j.first_byte_ms, j.body_ms
      from claimed as c
      join judged as j on j.request_id = c.request_id
      join tidegate.request as r on r.id = c.request_id
      where c.goes_on;
    get diagnostics v_found = row_count;
    v_left := v_left - v_found;
  end loop;
end;
$$;
select tidegate_internal.allow('search_claim', '{worker,admin}');
