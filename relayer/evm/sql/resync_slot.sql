-- resync_slot: A nonce of a wallet, with the hashes of its versions, the first one first.
create or replace function evm.resync_slot(p_wallet smallint, p_nonce bigint)
  returns table (state text, hashes bytea[], signed_at timestamptz)
  language sql volatile
  as $$
    select t.state, array(
      select a.hash from evm.attempt as a where a.wallet = t.wallet and a.nonce = t.nonce order by a.n
    ), t.signed_at
    from evm.tx as t
    where t.wallet = p_wallet and t.nonce = p_nonce
  $$;
