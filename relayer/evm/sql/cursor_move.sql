-- cursor_move: Moves a watcher's cursor from one block to a later one, or back to one that it has read up to. Returns
-- false if it is elsewhere by now, or a later epoch has moved it: then nothing of the page may be applied. The cursor
-- is locked until the transaction ends.
create or replace function evm.cursor_move(
  p_name text, p_epoch bigint, p_from bigint, p_from_hash bytea, p_to bigint, p_to_hash bytea
)
  returns boolean language plpgsql volatile as $$
begin
  update evm.cursor as c
  set number = p_to, hash = p_to_hash, epoch = p_epoch, moved_at = tidegate.clock()
  where c.name = p_name and c.number = p_from and c.hash = p_from_hash and c.epoch <= p_epoch;
  if not found then
    return false;
  end if;
  delete from evm.block as b where b.cursor_name = p_name and b.number >= p_to;
  insert into evm.block (cursor_name, number, hash) values (p_name, p_to, p_to_hash);
  delete from evm.block as b
  where b.cursor_name = p_name and b.number < (
    select n.number from evm.block as n where n.cursor_name = p_name order by n.number desc offset 255 limit 1
  );
  return true;
end;
$$;
