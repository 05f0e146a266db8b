-- require_read_committed: Raises TG007 at isolation levels above READ COMMITTED.
--
-- For functions that take a lock and then count: above READ COMMITTED they would count in a snapshot that is older
-- than the lock.
create or replace function tidegate_internal.require_read_committed(p_function text)
  returns void language plpgsql stable as $$
begin
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    raise exception using errcode = 'TG007',
      message = format('%s works at READ COMMITTED, not at %s', p_function,
        upper(current_setting('transaction_isolation')));
  end if;
end;
$$;
