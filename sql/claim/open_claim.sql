-- open_claim: notes what a claim has taken, the last one first; returns its token, null when it has taken nothing
create or replace function tidegate_internal.open_claim(p_queue text, p_worker text, p_ids uuid[], p_lease_for interval)
  returns bigint
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  -- Random: a counter may be set back by a crash, and an old lease must never be taken for a new one.
  v_token constant bigint := hashtextextended(gen_random_uuid()::text, 0);
begin
  if p_ids is null then
    return null;
  end if;
  insert into tidegate.claim (token, queue, worker, claimed_at, until, lease_ms, ids)
  values (
    v_token, p_queue, p_worker, tidegate.clock(), tidegate.clock() + p_lease_for,
    ceil(extract(epoch from p_lease_for) * 1000)::bigint, p_ids
  );
  return v_token;
end;
$$;

comment on function tidegate_internal.open_claim is 'Notes what a claim has taken; returns its token.';
