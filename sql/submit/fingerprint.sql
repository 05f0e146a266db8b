-- fingerprint: what tells a payload of a kind from others: SHA-256 of its canonical text
create or replace function tidegate_internal.fingerprint(p_payload jsonb, p_set_paths text[])
  returns bytea
  language sql
  immutable
  parallel safe
return sha256(convert_to(tidegate_internal.canonical(p_payload, p_set_paths), 'UTF8'));

comment on function tidegate_internal.fingerprint is 'SHA-256 of the canonical text of a payload.';
