-- keeper_unsettled: Of the first `p_limit` nonces of a wallet from `p_settled` on, the transactions that are mined in
-- blocks up to `p_block`, lowest nonce first.
--
-- Before them the one below `p_settled`, if it is final or void: a deep reorganisation may have dropped it.
create or replace function evm.keeper_unsettled(p_wallet smallint, p_settled bigint, p_block bigint, p_limit integer)
  returns table (nonce bigint, state text, mined_hash bytea, block_number bigint, block_hash bytea)
  language sql volatile
  as $$
    (
      select t.nonce, t.state, t.mined_hash, t.block_number, t.block_hash
      from evm.tx as t
      where t.wallet = p_wallet and t.nonce = p_settled - 1 and t.state in ('final', 'void')
    )
    union all
    (
      select t.nonce, t.state, t.mined_hash, t.block_number, t.block_hash
      from (
        select n.* from evm.tx as n where n.wallet = p_wallet and n.nonce >= p_settled order by n.nonce limit p_limit
      ) as t
      where t.state = 'mined' and t.block_number <= p_block
      order by t.nonce
    )
  $$;
