-- dedup_find_derived: The request that a derived key stands for, in any time bucket; TG004 when the payload differs.
--
-- The rules are those of `dedup_find`. The last row of a scope stands for the request, if any does: a new one is stored
-- only when none stands; after a change of `key_bucket` it may be one of the rows before.
create or replace function tidegate_internal.dedup_find_derived(p_scope text, p_fingerprint bytea, p_now timestamptz)
  returns uuid language plpgsql stable as $$
declare
  v_seen record;
begin
  select s.request_id, (d.row).fingerprint into v_seen
  from (select d as row from tidegate.dedup as d where d.scope = p_scope order by d.key desc limit 100) as d
  cross join lateral tidegate_internal.dedup_target(d.row, p_now) as s(request_id)
  where s.request_id is not null
  order by (d.row).first_seen desc
  limit 1;
  if nullif(v_seen.fingerprint, '') <> p_fingerprint then
    raise exception using errcode = 'TG004',
      message = format(
        'the values that are this payload''s idempotency key were used for request %s with another payload',
        v_seen.request_id
      ),
      hint = 'wait for the end of the window, or submit it with a key of your own';
  end if;
  return v_seen.request_id;
end;
$$;
