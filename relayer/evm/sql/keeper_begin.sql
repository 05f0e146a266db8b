-- keeper_begin: Begins to keep a wallet under this epoch of the singleton, or goes on; returns the lowest nonce whose
-- transaction is not final, lost or void. Null: a newer epoch keeps it, or there is no such wallet.
--
-- Called often, so it writes only once for each epoch. One that waited for another with this epoch writes, too: it does
-- not see that one's row.
create or replace function evm.keeper_begin(p_wallet smallint, p_epoch bigint)
  returns bigint language sql volatile
  as $$
    with begun as (
      insert into evm.keeper as k (wallet, epoch, settled_nonce)
      select w.id, p_epoch, w.first_nonce
      from evm.wallet as w
      where w.id = p_wallet and not exists (select from evm.keeper as h where h.wallet = w.id and h.epoch = p_epoch)
      on conflict (wallet) do update set epoch = excluded.epoch where k.epoch <= excluded.epoch
      returning k.settled_nonce
    )
    select b.settled_nonce from begun as b
    union all
    select k.settled_nonce from evm.keeper as k where k.wallet = p_wallet and k.epoch = p_epoch
  $$;
