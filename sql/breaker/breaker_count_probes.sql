-- breaker_count_probes: Counts the requests that a claim takes as probes of half-open breakers, whose rows it holds.
create or replace function tidegate_internal.breaker_count_probes(
  p_stage     tidegate.stage,
  p_probing   text[],
  p_ids       uuid[],
  p_lease_for interval,
  p_now       timestamptz
)
  returns void
  language sql
  set search_path = pg_catalog, pg_temp
as $$
  update tidegate.breaker as b
  set
    probes = case when b.probe_until <= p_now then 0 else b.probes end + taken.probes,
    probe_until = p_now + p_lease_for + f.timeout_ms * interval '1 ms'
  from (
    select r.kind, count(*)::integer as probes
    from tidegate.request as r
    where r.id = any(p_ids) and r.kind = any(p_probing)
    group by r.kind
  ) as taken
  join tidegate.policy_in_force as f on f.kind = taken.kind and f.stage = p_stage
  where b.kind = taken.kind and b.stage = p_stage and b.state = 'half_open';
$$;
