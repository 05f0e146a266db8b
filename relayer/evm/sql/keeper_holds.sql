-- keeper_holds: Whether this epoch keeps the wallet; if so, no newer one begins until the transaction ends.
create or replace function evm.keeper_holds(p_wallet smallint, p_epoch bigint)
  returns boolean language sql volatile
  as $$
    select exists (select from evm.keeper as k where k.wallet = p_wallet and k.epoch = p_epoch for share)
  $$;
