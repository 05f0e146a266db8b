-- tidegate.fingerprint: what tells a payload of a kind from others: SHA-256 of its canonical text
create or replace function tidegate.fingerprint(p_payload jsonb, p_set_paths text[])
  returns bytea
  language sql
  immutable
  parallel safe
return sha256(convert_to(tidegate.canonical(p_payload, p_set_paths), 'UTF8'));

comment on function tidegate.fingerprint is 'Internal: SHA-256 of the canonical text of a payload.';
