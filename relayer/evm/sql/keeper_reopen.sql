-- keeper_reopen: Sets mined transactions whose nonce is `p_count` or higher back to `sent`, because the chain up to
-- block `p_head` lacks them after a reorganisation. Returns how many.
create or replace function evm.keeper_reopen(p_wallet smallint, p_epoch bigint, p_count bigint, p_head bigint)
  returns bigint language sql volatile
  as $$
    with reopened as (
      update evm.tx as t
      set state = 'sent', mined_hash = null, block_number = null, block_hash = null, status = null
      where t.wallet = p_wallet and t.nonce >= p_count and t.state = 'mined' and t.block_number <= p_head
        and evm.keeper_holds(p_wallet, p_epoch)
      returning 1
    )
    select count(*) from reopened
  $$;
