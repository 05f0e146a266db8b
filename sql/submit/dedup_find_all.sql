-- dedup_find_all: `dedup_find` for each request of a submission: the earlier requests that its keys stand for
--
-- `p_keys` are the callers' keys, in `p_scopes`, and `p_made` those of `made_keys`. In the order given; null where a key stands
-- for none, and for a request without a key. Writes nothing.
-- Raises TG004 when a key stands for a request with another payload.
create or replace function tidegate_internal.dedup_find_all(
  p_kind tidegate.kind, p_payloads jsonb[], p_scopes text[], p_keys text[], p_made text[]
)
  returns uuid[]
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
begin
  return (
    select array_agg(
      case
        when p.key is not null then (
          select f.request_id
          from tidegate_internal.dedup_find(
            p.scope, p.key, tidegate_internal.fingerprint(p.payload, p_kind.set_paths), tidegate.clock()
          ) as f
        )
        when p.made is not null
          then tidegate_internal.dedup_find_made(
            p.made, tidegate_internal.fingerprint(p.payload, p_kind.set_paths), tidegate.clock()
          )
      end
      order by p.place
    )
    from unnest(p_payloads, p_scopes, p_keys, p_made) with ordinality as p(payload, scope, key, made, place)
  );
end;
$$;

comment on function tidegate_internal.dedup_find_all is
  'Dedup_find for each request of a submission that has a key.';
