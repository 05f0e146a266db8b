-- ask_claim: For workers: at most `batch` requests of these kinds whose response is to be asked for now; empty: none is
-- due.
--
-- A direct request that awaits its response is due a second after its receipt, and then when `ask_settle` says. An ask
-- has its time: a worker that dies delays the next one and no more. Nothing is asked while the kind's breaker is open,
-- or from a quarantined database.
create or replace function tidegate.ask_claim(kinds text[], batch integer default 100)
  returns table (
    id uuid, send_id uuid, kind text, payload jsonb, submitter text, attempt integer, deadline_at timestamptz,
    timeout_ms integer, connect_ms integer, first_byte_ms integer, body_ms integer, reference text
  )
  language plpgsql security definer
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_now   constant timestamptz := tidegate.clock();
  v_left  integer := ask_claim.batch;
  v_kind  text;
  v_found integer;
begin
  -- In no order, so that each kind has its turn.
  for v_kind in
    select k.name
    from unnest(ask_claim.kinds) as k(name)
    where not exists (select from tidegate.quarantine_state) and exists (
      select from tidegate.awaiting_response as a where a.kind = k.name and a.ask_at <= v_now
    )
    order by random()
  loop
    exit when v_left < 1;
    continue when tidegate.breaker_blocks(v_kind, 'tx');
    return query
      with due as materialized (
        select a.request_id
        from tidegate.awaiting_response as a
        where a.kind = v_kind and a.ask_at <= v_now
        order by a.ask_at
        limit v_left
        for update skip locked
      ), claimed as (
        update tidegate.awaiting_response as a
        set ask_at = v_now + make_interval(secs => 1 + p.timeout_ms / 1000.0)
        from due as d
        cross join tidegate.policy_in_force as p
        where a.request_id = d.request_id and p.kind = v_kind and p.stage = 'tx'
        returning a.request_id, p.timeout_ms, p.connect_ms, p.first_byte_ms, p.body_ms
      )
      select
        r.id, coalesce(r.send_id, r.id), r.kind, r.payload, r.submitter, r.tx_attempt, r.deadline_at, c.timeout_ms,
        c.connect_ms, c.first_byte_ms, c.body_ms, r.reference
      from claimed as c
      join tidegate.request as r on r.id = c.request_id and r.req_status = 'receipt_received';
    get diagnostics v_found = row_count;
    v_left := v_left - v_found;
  end loop;
end;
$$;
select tidegate_internal.allow('ask_claim', '{worker,admin}');
