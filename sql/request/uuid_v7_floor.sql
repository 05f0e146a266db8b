-- uuid_v7_floor: The smallest id of an instant, for ranges and partition bounds over ids.
create or replace function tidegate.uuid_v7_floor(p_at timestamptz)
  returns uuid language plpgsql immutable parallel safe as $$
begin
  return encode(int8send((extract(epoch from p_at) * 1000)::bigint << 16) || decode('0000000000000000', 'hex'),
    'hex')::uuid;
end;
$$;
select tidegate_internal.allow('uuid_v7_floor', '{reader,worker,admin}');
