-- uuid_v7: a time-ordered id (RFC 9562, version 7) made in the database
--
-- The 12 bits after the version hold the fraction of the millisecond, so ids made one after the other by one
-- session ascend within the millisecond too. PL/pgSQL, because an SQL function of this shape is planned at each call.
create or replace function tidegate_internal.uuid_v7(p_now timestamptz default tidegate.clock())
  returns uuid
  language plpgsql
  volatile
  parallel safe
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_us bigint := (extract(epoch from p_now) * 1000000)::bigint;
begin
  return encode(
    int8send(((v_us / 1000) << 16) | 28672 | ((v_us % 1000) * 4096 / 1000))
      || substring(uuid_send(gen_random_uuid()) from 9),
    'hex'
  )::uuid;
end;
$$;

comment on function tidegate_internal.uuid_v7 is 'A time-ordered id (UUID version 7) of an instant.';
