-- resync_reopen: Sets a final transaction back to `sent`, which the chain has no more. Its bytes are forgotten, so its
-- keeper uses the nonce up. Returns whether it did.
create or replace function evm.resync_reopen(p_wallet smallint, p_nonce bigint)
  returns boolean language sql volatile
  as $$
    with reopened as (
      update evm.tx as t
      set state = 'sent', mined_hash = null, block_number = null, block_hash = null, status = null
      from evm.wallet as w
      where t.wallet = p_wallet and t.nonce = p_nonce and t.state in ('final', 'void')
        and w.id = t.wallet and w.state = 'off'
      returning t.nonce
    ), lowered as (
      update evm.keeper as k set settled_nonce = r.nonce from reopened as r
      where k.wallet = p_wallet and k.settled_nonce > r.nonce
    )
    select exists (select from reopened)
  $$;
