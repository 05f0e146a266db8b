-- contract_fingerprint: The fingerprint that a payload of a kind has now; null for none.
create or replace function tidegate_internal.contract_fingerprint(p_kind text, p_payload jsonb)
  returns bytea
  language sql
  stable
  set search_path = pg_catalog, pg_temp
as $$
  select tidegate_internal.fingerprint(p_payload, k.set_paths) from tidegate.kind as k where k.name = p_kind;
$$;
