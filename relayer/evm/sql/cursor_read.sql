-- cursor_read: Where a watcher is: the last block whose logs were applied. No row before it has started.
create or replace function evm.cursor_read(p_name text, p_chain_id bigint)
  returns table (number bigint, hash bytea, epoch bigint)
  language sql stable
  as $$
    select c.number, c.hash, c.epoch from evm.cursor as c where c.name = p_name and c.chain_id = p_chain_id
  $$;
