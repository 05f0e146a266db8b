-- tidegate.contract_fingerprint: the fingerprint that a payload of a kind has now; null for none
create or replace function tidegate.contract_fingerprint(p_kind text, p_payload jsonb)
  returns bytea
  language sql
  stable
as $$
  select sha256(convert_to(tidegate.canonical(p_payload), 'UTF8')) from tidegate.kind as k where k.name = p_kind;
$$;
