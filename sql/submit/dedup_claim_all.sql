-- dedup_claim_all: `dedup_claim` for each request of a submission that has a key, in key order, and then `dedup_link`
-- for those whose key stood for another before.
--
-- `p_keys` are the callers' keys, in `p_scopes`, `p_derived` those of `derived_keys`, and `p_prints` the payloads'
-- fingerprints, null to compare none. Returns, in the order given, the id that each request stands for: its own when it
-- is new, the first one's when a key comes twice in a scope.
create or replace function tidegate_internal.dedup_claim_all(
  p_kind tidegate.kind, p_scopes text[], p_keys text[], p_derived text[], p_prints bytea[],
  p_ids uuid[], p_links boolean
)
  returns uuid[] language plpgsql as $$
declare
  v_window constant interval := (
    select p.dedup_window from tidegate.policy as p where p.kind = p_kind.name and p.stage = 'tx'
  );
  v_ids     uuid[] := p_ids;
  v_known   uuid[];
  v_keyed   record;
  v_claim   record;
  v_place   bigint;
  v_places  bigint[];
  v_stored  text[];
  v_seen    tidegate.dedup[];
  v_earlier uuid[];
begin
  if p_derived is not null and p_kind.key_bucket is not null then
    -- Known keys wait for no lock.
    v_known := tidegate_internal.dedup_find_all(p_scopes, p_keys, p_derived, p_prints);
    if array_position(v_known, null) is null then
      return v_known;
    end if;
    perform tidegate_internal.require_read_committed('a submission whose key is made of a time bucket');
    perform tidegate_internal.lock_names('dedup', p_derived);
  end if;

  for v_keyed in
    select k.scope, k.key, k.derived, k.print, k.place, first_value(k.place) over same as first
    from unnest(p_scopes, p_keys, p_derived, p_prints) with ordinality as k(scope, key, derived, print, place)
    where num_nonnulls(k.key, k.derived) > 0
    window same as (partition by k.key, k.derived, k.scope order by k.place)
    order by k.key, k.derived, k.scope, k.place
  loop
    if length(v_keyed.key) not between 1 and 255 then
      raise exception using
        errcode = 'TG007', message = format('an idempotency key has 1 to 255 characters, not %s', length(v_keyed.key));
    end if;
    if v_keyed.place <> v_keyed.first then
      -- Its request is not stored yet, so only the first request with this key in this loop is known.
      if v_keyed.print <> p_prints[v_keyed.first] then
        raise exception using errcode = 'TG004',
          message = case
            when v_keyed.key is null
              then format('two payloads here have the same values for the idempotency keys of kind "%s", '
              'and differ otherwise (places %s and %s)', p_kind.name, v_keyed.first, v_keyed.place)
            else format('idempotency key "%s" is used twice here, with two payloads', v_keyed.key)
          end,
          hint = 'use a new key for a new request';
      end if;
      v_ids[v_keyed.place] := v_ids[v_keyed.first];
    else
      v_claim := tidegate_internal.dedup_claim(
        case when v_keyed.key is null then v_keyed.derived else v_keyed.scope end, v_keyed.key, v_keyed.print, v_window,
        p_ids[v_keyed.place], p_kind.key_bucket
      );
      v_ids[v_keyed.place] := v_claim.target;
      if v_claim.earlier is not null then
        v_places := v_places || v_keyed.place;
        v_stored := v_stored || v_claim.stored_key;
        v_seen := v_seen || v_claim.seen;
        v_earlier := v_earlier || v_claim.earlier;
      end if;
    end if;
  end loop;
  if v_earlier is null then
    return v_ids;
  end if;

  -- Once, for all keys: rows of requests are locked in the order of their ids. Until here it could be established that
  -- an earlier request was executed; from here on it waits for this transaction.
  perform tidegate_internal.lock_lineage(v_earlier);
  for v_nth in 1 .. cardinality(v_places) loop
    v_place := v_places[v_nth];
    v_ids := array_replace(v_ids, p_ids[v_place], tidegate_internal.dedup_link(
      case when p_keys[v_place] is null then p_derived[v_place] else p_scopes[v_place] end, v_stored[v_nth],
      p_keys[v_place] is null, p_prints[v_place], p_ids[v_place], v_seen[v_nth], p_links
    ));
  end loop;
  return v_ids;
end;
$$;
