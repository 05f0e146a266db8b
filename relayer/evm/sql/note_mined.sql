-- note_mined: Records the receipts of signed transactions, by their hashes; returns how many changed something.
--
-- Commits without waiting for the disk: the chain has the receipts. Two workers may note the same receipts at once,
-- each in an order of its own: the rows are locked in the order of their keys first, so that neither waits in a circle.
create or replace function evm.note_mined(
  p_hashes bytea[], p_block_numbers bigint[], p_block_hashes bytea[], p_statuses smallint[]
)
  returns bigint language plpgsql volatile as $$
declare
  v_count bigint;
begin
  perform set_config('synchronous_commit', 'off', true);
  perform from evm.attempt as a
  join evm.tx as t on t.wallet = a.wallet and t.nonce = a.nonce
  where a.hash = any(p_hashes)
  order by t.wallet, t.nonce
  for no key update of t;
  with noted as (
    update evm.tx as t
    set
      state = 'mined', mined_hash = m.hash, block_number = m.block_number, block_hash = m.block_hash, status = m.status
    from unnest(p_hashes, p_block_numbers, p_block_hashes, p_statuses) as m(hash, block_number, block_hash, status)
    join evm.attempt as a on a.hash = m.hash
    where t.wallet = a.wallet and t.nonce = a.nonce
      and (t.state in ('signed', 'sent') or (t.state = 'mined' and t.block_hash <> m.block_hash))
    returning 1
  )
  select count(*) into v_count from noted;
  return v_count;
end;
$$;
