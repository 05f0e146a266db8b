-- dedup_return: Makes keys that were claimed for refused requests stand for what they stood for before, or nothing.
--
-- A key that stood for a request before is the caller's, or derived, and in `p_scopes` or `p_derived`.
create or replace function tidegate_internal.dedup_return(
  p_scopes text[], p_keys text[], p_derived text[], p_refused uuid[]
)
  returns void language plpgsql as $$
begin
  with before as (
    delete from tidegate.redrive as v where v.redriven_as = any(p_refused) returning v.request_id, v.redriven_as
  ), claimed as materialized (
    select d.scope, d.key, d.request_id
    from tidegate.dedup as d
    join (select distinct k.scope, k.key from unnest(p_scopes, p_keys) as k(scope, key)) as k
      on k.scope = d.scope and k.key = d.key
    where d.request_id = any(p_refused)
    union
    select d.scope, d.key, d.request_id
    from tidegate.dedup as d
    where d.scope = any(p_derived) and d.request_id = any(p_refused)
  ), returned as (
    update tidegate.dedup as d
    set
      request_id = r.id, first_seen = r.submitted_at,
      expires_at = tidegate_internal.window_end(r.submitted_at, d.dedup_window),
      fingerprint = case d.fingerprint when '' then '' else tidegate_internal.fingerprint(r.payload, r.set_paths) end
    from (
      select distinct on (c.scope, c.key) c.scope, c.key, o.id, o.submitted_at, o.payload, k.set_paths
      from claimed as c
      join before as b on b.redriven_as = c.request_id
      join tidegate.request as o on o.id = b.request_id
      join tidegate.kind as k on k.name = o.kind
      order by c.scope, c.key, o.id desc
    ) as r
    where d.scope = r.scope and d.key = r.key
    returning d.scope, d.key
  )
  delete from tidegate.dedup as d
  using claimed as c
  where d.scope = c.scope and d.key = c.key
    and not exists (select from returned as r where r.scope = d.scope and r.key = d.key);
end;
$$;
select tidegate_internal.plan_along_indexes('dedup_return');
