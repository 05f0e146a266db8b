-- wallet_lock_key: The key of the advisory lock under which nonces of a wallet are taken.
create or replace function evm.wallet_lock_key(p_wallet smallint)
  returns bigint language sql immutable
  return hashtextextended('evm.wallet', p_wallet);
