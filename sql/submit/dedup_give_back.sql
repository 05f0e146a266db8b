-- dedup_give_back: The keys that a submission has just claimed for `p_ids` stand for no request: there was no room for
-- these.
create or replace function tidegate_internal.dedup_give_back(
  p_scopes text[], p_keys text[], p_made text[], p_ids uuid[]
)
  returns void
  language plpgsql
  -- A plan that is kept may have been made for empty tables: joined as written, along indexes, it serves full ones,
  -- too.
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_mergejoin = off
  set join_collapse_limit = 1
  set search_path = pg_catalog, pg_temp
as $$
begin
  delete from tidegate.dedup as d
  using unnest(p_scopes, p_keys) as k(scope, key)
  where d.scope = k.scope and d.key = k.key and d.request_id = any(p_ids);
  delete from tidegate.dedup as d where d.scope = any(p_made) and d.request_id = any(p_ids);
end;
$$;
