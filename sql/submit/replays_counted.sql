-- replays_counted: The value of a kind's replay counter; null where it cannot be read or is missing.
--
-- PostgreSQL may leave an unlogged sequence without content on a standby that is promoted soon after it was made:
-- `bad magic number in sequence`.
create or replace function tidegate_internal.replays_counted(p_kind text)
  returns bigint language plpgsql as $$
begin
  return (
    select coalesce(pg_sequence_last_value(c.counter), 0)
    from (select tidegate_internal.replays_counter(p_kind) as counter) as c
    where c.counter is not null
  );
exception when internal_error then
  return null;
end;
$$;
