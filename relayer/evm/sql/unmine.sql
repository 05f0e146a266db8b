-- unmine: Sets transactions of a chain's wallets back to `sent` whose blocks, all after `p_block`, a reorganisation has
-- dropped: also those that failed, and those whose requests have ended. Returns how many.
create or replace function evm.unmine(p_chain_id bigint, p_block bigint, p_hashes bytea[])
  returns bigint language sql volatile as $$
    with unmined as (
      update evm.tx as t
      set state = 'sent', mined_hash = null, block_number = null, block_hash = null, status = null
      from evm.wallet as w
      where w.chain_id = p_chain_id and t.wallet = w.id and t.state = 'mined' and t.block_hash = any(p_hashes)
        and t.nonce > coalesce(
          (
            select e.nonce from evm.tx as e
            where e.wallet = w.id and e.block_number <= p_block
            order by e.nonce desc limit 1
          ),
          -1
        )
      returning 1
    )
    select count(*) from unmined
  $$;
