-- keeper_adopt: Takes a transaction that the chain has at one of our nonces, with the call of its order, for the
-- order's own, from a former life of the database. Returns whether it did; see `note_mined` for its receipt.
create or replace function evm.keeper_adopt(
  p_wallet smallint, p_nonce bigint, p_recipient bytea, p_calldata bytea, p_hash bytea, p_max_fee text, p_tip text
)
  returns boolean language sql volatile
  as $$
    with adopted as (
      insert into evm.attempt (wallet, nonce, n, kind, hash, max_fee, tip)
      select t.wallet, t.nonce, 1 + (
        select max(a.n) from evm.attempt as a where a.wallet = t.wallet and a.nonce = t.nonce
      ), 'own', p_hash, p_max_fee::numeric, p_tip::numeric
      from evm.tx as t
      where t.wallet = p_wallet and t.nonce = p_nonce and t.state in ('signed', 'sent')
        and t.recipient = p_recipient and t.calldata = p_calldata
      for no key update of t
      on conflict do nothing
      returning 1
    )
    select exists (select from adopted)
  $$;
