-- dedup_claim_all: `dedup_claim` for each request of a submission that has a key, in key order.
--
-- `p_keys` are the callers' keys, in `p_scopes`, `p_made` those of `made_keys`, and `p_prints` the payloads'
-- fingerprints. Returns, in the order given, the id that each request stands for: its own when it is new, the first
-- one's when a key comes twice in a scope.
create or replace function tidegate_internal.dedup_claim_all(
  p_kind   tidegate.kind,
  p_scopes text[],
  p_keys   text[],
  p_made   text[],
  p_prints bytea[],
  p_ids    uuid[]
)
  returns uuid[]
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_window      interval := (select p.dedup_window from tidegate.policy as p where p.kind = p_kind.name
    and p.stage = 'tx');
  v_known       uuid[];
  v_keyed       record;
  v_first_scope text;
  v_first_key   text;
  v_first_made  text;
  v_first_place bigint;
  v_first_print bytea;
begin
  if p_made is not null and p_kind.key_bucket is not null then
    -- What is known already waits for nobody.
    v_known := tidegate_internal.dedup_find_all(p_scopes, p_keys, p_made, p_prints);
    if array_position(v_known, null) is null then
      return v_known;
    end if;
    perform tidegate_internal.require_read_committed('a submission whose key is made of a time bucket');
    perform tidegate_internal.lock_made_keys(p_made);
  end if;

  for v_keyed in
    select k.scope, k.key, k.made, k.print, k.place
    from unnest(p_scopes, p_keys, p_made, p_prints) with ordinality as k(scope, key, made, print, place)
    where num_nonnulls(k.key, k.made) > 0
    order by k.key, k.made, k.scope, k.place
  loop
    if length(v_keyed.key) not between 1 and 255 then
      raise exception using
        errcode = 'TG007',
        message = format('an idempotency key has 1 to 255 characters, not %s', length(v_keyed.key));
    end if;
    if (v_keyed.key = v_first_key and v_keyed.scope = v_first_scope) or v_keyed.made = v_first_made then
      -- Its request is not there yet, so only the one before it in this loop can say what the key stands for.
      if v_keyed.print <> v_first_print then
        raise exception using
          errcode = 'TG004',
          message = case
            when v_keyed.key is null
              then format('the values of which kind "%s" makes its idempotency keys are there twice here, '
              'in two payloads (places %s and %s)', p_kind.name, v_first_place, v_keyed.place)
            else format('idempotency key "%s" is used twice here, with two payloads', v_keyed.key)
          end,
          hint = 'use a new key for a new request';
      end if;
      p_ids[v_keyed.place] := p_ids[v_first_place];
    else
      p_ids[v_keyed.place] := tidegate_internal.dedup_claim(
        case when v_keyed.key is null then v_keyed.made else v_keyed.scope end, v_keyed.key, v_keyed.print, v_window,
        p_ids[v_keyed.place], p_kind.key_bucket
      );
      v_first_scope := v_keyed.scope;
      v_first_key := v_keyed.key;
      v_first_made := v_keyed.made;
      v_first_place := v_keyed.place;
      v_first_print := v_keyed.print;
    end if;
  end loop;
  return p_ids;
end;
$$;
