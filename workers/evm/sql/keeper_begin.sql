-- keeper_begin: Begins to keep a wallet under this epoch of the singleton; returns the lowest nonce whose transaction
-- is not final, lost or void. Null: a newer epoch keeps it, or there is no such wallet.
create or replace function evm.keeper_begin(p_wallet smallint, p_epoch bigint)
  returns bigint language sql volatile
  as $$
    insert into evm.keeper as k (wallet, epoch, settled_nonce)
    select w.id, p_epoch, w.first_nonce from evm.wallet as w where w.id = p_wallet
    on conflict (wallet) do update set epoch = excluded.epoch where k.epoch <= excluded.epoch
    returning k.settled_nonce
  $$;
