-- cursor_start: Where a watcher is: its cursor, which begins at this block if there is none.
create or replace function evm.cursor_start(p_name text, p_chain_id bigint, p_number bigint, p_hash bytea)
  returns table (number bigint, hash bytea, epoch bigint)
  language sql volatile
  as $$
    with started as (
      insert into evm.cursor (name, chain_id, number, hash, epoch)
      values (p_name, p_chain_id, p_number, p_hash, 0)
      on conflict do nothing
      returning name
    )
    insert into evm.block (cursor_name, number, hash) select s.name, p_number, p_hash from started as s;
    select * from evm.cursor_read(p_name, p_chain_id)
  $$;
