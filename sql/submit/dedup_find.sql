-- dedup_find: The request that an idempotency key stands for now, or null when it stands for none.
--
-- Raises TG004 when it stands for a request with another payload; a null fingerprint fits any. A plain read: a
-- duplicate writes nothing.
create or replace function tidegate_internal.dedup_find(
  p_scope text, p_key text, p_fingerprint bytea, p_now timestamptz,
  out request_id uuid, out seen tidegate.dedup
)
  language plpgsql stable as $$
begin
  select d.* into seen from tidegate.dedup as d where d.scope = p_scope and d.key = p_key;
  if seen.request_id is null then
    return;
  end if;
  request_id := tidegate_internal.dedup_target(seen, p_now);
  if request_id is not null and nullif(seen.fingerprint, '') <> p_fingerprint then
    raise exception using errcode = 'TG004',
      message = format('idempotency key "%s" was used for request %s with another payload', p_key, seen.request_id),
      hint = 'use a new key for a new request';
  end if;
end;
$$;
