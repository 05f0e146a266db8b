-- cursor_blocks: The last blocks that a watcher read up to, the newest one first.
create or replace function evm.cursor_blocks(p_name text)
  returns table (number bigint, hash bytea)
  language sql stable
  as $$
    select b.number, b.hash from evm.block as b where b.cursor_name = p_name order by b.number desc
  $$;
