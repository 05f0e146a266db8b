-- dedup_find_all: `dedup_find` for each request of a submission: the earlier requests that its keys stand for.
--
-- `p_keys` are the callers' keys, in `p_scopes`, `p_derived` those of `derived_keys`, and `p_prints` the payloads'
-- fingerprints, null to compare none. In the order given; null where a key stands for none, and for a request without a
-- key. Writes nothing. Raises TG004 when a key stands for a request with another payload.
create or replace function tidegate_internal.dedup_find_all(
  p_scopes text[], p_keys text[], p_derived text[], p_prints bytea[]
)
  returns uuid[] language plpgsql stable as $$
begin
  return (
    select array_agg(
      case
        when p.key is not null then (
          select f.request_id from tidegate_internal.dedup_find(p.scope, p.key, p.print, tidegate.clock()) as f
        )
        when p.derived is not null then tidegate_internal.dedup_find_derived(p.derived, p.print, tidegate.clock())
      end
      order by p.place
    )
    from unnest(p_scopes, p_keys, p_derived, p_prints) with ordinality as p(scope, key, derived, print, place)
  );
end;
$$;
