-- record_calls: Appends the calls that a settle reports, one row per kind, and passes them to the breakers.
--
-- One element a call, in the order of the messages: its kind, whether it was the request's first attempt, its
-- outcome (null for all or `answered`: any answer; `failed`; `timeout`; `unauthorized`: a failure of the credential;
-- `void`: not counted), whether it will be retried. The place of its lease finds how long it took and how many hedges
-- it had; without that, it took from its claim to now. Only answers and calls that were cut off give latencies: a
-- refused connection may take no time.
create or replace function tidegate_internal.record_calls(
  p_stage tidegate.stage, p_kinds text[], p_first boolean[], p_outcomes text[], p_retried boolean[], p_places bigint[],
  p_took_ms integer[], p_hedges integer[], p_claimed_at timestamptz[]
)
  returns void language plpgsql as $$
declare
  v_kept constant integer := 16;
  v_now  constant timestamptz := tidegate.clock();
begin
  if p_kinds is null then
    return;
  end if;
  -- The policies are read once; a lookup for each call costs more.
  with policy as materialized (select * from tidegate.policy as p where p.stage = p_stage)
  insert into tidegate.call_sample (
    kind, stage, at, requests, calls, failures, timeouts, retries, slow, hedges, latency_ms
  )
  select
    c.kind, p_stage, v_now, count(*) filter (where c.first), count(*),
    count(*) filter (where c.outcome in ('failed', 'timeout', 'unauthorized')),
    count(*) filter (where c.outcome = 'timeout'),
    count(*) filter (where c.retried),
    count(*) filter (where c.took_ms > p.breaker_latency_ms or c.outcome = 'timeout'),
    coalesce(sum(c.hedges), 0),
    coalesce((array_agg(c.took_ms) filter (where c.outcome is null or c.outcome = 'timeout'))[1:v_kept], '{}')
  from (
    select
      u.kind, u.first, u.outcome, u.retried, least(greatest(p_hedges[u.place], 0), 1000) as hedges,
      greatest(coalesce(
        p_took_ms[u.place],
        least(extract(epoch from v_now - u.claimed_at) * 1000, 2147483647)::integer
      ), 0) as took_ms
    from unnest(p_kinds, p_first, p_outcomes, p_retried, p_places, p_claimed_at)
      as u(kind, first, outcome, retried, place, claimed_at)
    -- Computed once, not for each aggregate.
    offset 0
  ) as c
  join policy as p on p.kind = c.kind
  group by c.kind;

  -- Most have none; an index condition would sort all the kinds first.
  if exists (
    select from tidegate.breaker as b where b.stage = p_stage and array_position(p_kinds, b.kind) is not null
  ) then
    perform tidegate_internal.breaker_record_calls(
      p_stage, p_kinds, p_outcomes,
      array(
        select coalesce(p_took_ms[u.place] > p.breaker_latency_ms,
          v_now - u.claimed_at > p.breaker_latency_ms * interval '1 ms')
        from unnest(p_kinds, p_places, p_claimed_at) with ordinality as u(kind, place, claimed_at, number)
        left join tidegate.policy as p on p.kind = u.kind and p.stage = p_stage
        order by u.number
      ),
      p_claimed_at, v_now
    );
  end if;
  if 'unauthorized' = any(p_outcomes) then
    perform tidegate_internal.breaker_of_credential(u.kind, p_stage, v_now)
    from (
      select distinct c.kind from unnest(p_kinds, p_outcomes) as c(kind, outcome) where c.outcome = 'unauthorized'
      order by c.kind
    ) as u;
  end if;
end;
$$;
