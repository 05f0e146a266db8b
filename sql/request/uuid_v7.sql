-- uuid_v7: A time-ordered id (RFC 9562, version 7) made in the database, of an instant.
--
-- The 12 bits after the version hold the fraction of the millisecond, so ids of later microseconds ascend within the
-- millisecond too. An expression, which PostgreSQL puts in place of the call where the instant is a variable.
create or replace function tidegate_internal.uuid_v7(p_now timestamptz default tidegate.clock())
  returns uuid language sql volatile parallel safe
return encode(
  int8send(
    (((date_part('epoch', p_now) * 1000000)::bigint / 1000) << 16) | 28672
      | (((date_part('epoch', p_now) * 1000000)::bigint % 1000) * 4096 / 1000)
  ) || substring(uuid_send(gen_random_uuid()) from 9),
  'hex'
)::uuid;
