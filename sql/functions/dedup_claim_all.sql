-- tidegate.dedup_claim_all: `dedup_claim` for each request of a submission that has a key, in key order
--
-- Returns, in the order given, the id that each request stands for: its own when it is new, the first one's when a
-- key comes twice. The scope of a key is its kind and submitter.
create or replace function tidegate.dedup_claim_all(
  p_kind      tidegate.kind,
  p_payloads  jsonb[],
  p_keys      text[],
  p_submitter text,
  p_ids       uuid[]
)
  returns uuid[]
  language plpgsql
as $$
declare
  v_window      interval := (select p.dedup_window from tidegate.policy as p where p.kind = p_kind.name and p.stage = 'tx');
  v_scope       text := p_kind.name || ':' || coalesce(p_submitter, '');
  v_keyed       record;
  v_fingerprint bytea;
  v_first_key   text;
  v_first_place bigint;
  v_first_print bytea;
begin
  for v_keyed in
    select k.key, k.place from unnest(p_keys) with ordinality as k(key, place) where k.key is not null order by k.key, k.place
  loop
    if length(v_keyed.key) not between 1 and 255 then
      raise exception using
        errcode = 'TG007',
        message = format('an idempotency key has 1 to 255 characters, not %s', length(v_keyed.key));
    end if;
    v_fingerprint := sha256(convert_to(tidegate.canonical(p_payloads[v_keyed.place]), 'UTF8'));
    if v_keyed.key = v_first_key then
      -- Its request is not there yet, so only the one before it in this loop can say what the key stands for.
      if v_fingerprint <> v_first_print then
        raise exception using
          errcode = 'TG004',
          message = format('idempotency key "%s" is used twice here, with two payloads', v_keyed.key),
          hint = 'use a new key for a new request';
      end if;
      p_ids[v_keyed.place] := p_ids[v_first_place];
    else
      p_ids[v_keyed.place] := tidegate.dedup_claim(v_scope, v_keyed.key, v_fingerprint, v_window, p_ids[v_keyed.place]);
      v_first_key := v_keyed.key;
      v_first_place := v_keyed.place;
      v_first_print := v_fingerprint;
    end if;
  end loop;
  return p_ids;
end;
$$;
