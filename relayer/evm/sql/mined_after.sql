-- mined_after: The blocks after `p_block` in which transactions of a chain's wallets are mined, as far as they are not
-- final.
--
-- Nonces are mined in order, so each wallet is read from its last one down to one that is in an earlier block.
create or replace function evm.mined_after(p_chain_id bigint, p_block bigint)
  returns table (number bigint, hash bytea)
  language sql stable
  as $$
    select distinct t.block_number, t.block_hash
    from evm.wallet as w
    join evm.tx as t on t.wallet = w.id and t.state = 'mined' and t.block_number > p_block
    where w.chain_id = p_chain_id and t.nonce > coalesce(
      (
        select e.nonce from evm.tx as e
        where e.wallet = w.id and e.block_number <= p_block
        order by e.nonce desc limit 1
      ),
      -1
    )
  $$;
