-- tidegate.uuid_v7: a time-ordered id (RFC 9562, version 7) made in the database
--
-- The 12 bits after the version hold the fraction of the millisecond, so ids made one after the other by one
-- session ascend within the millisecond too.
create or replace function tidegate.uuid_v7(p_now timestamptz default clock_timestamp())
  returns uuid
  language sql
  volatile
  parallel safe
as $$
  select encode(
    int8send(((us / 1000) << 16) | 28672 | ((us % 1000) * 4096 / 1000))
      || substring(uuid_send(gen_random_uuid()) from 9),
    'hex'
  )::uuid
  from (select (extract(epoch from p_now) * 1000000)::bigint as us) as instant;
$$;
