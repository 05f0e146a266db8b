-- resync_insert: Adopts a transaction that the chain has at the wallet's next nonce and that the database has
-- forgotten; for a request that has no live transaction, or for none. Returns whether it did; see `note_mined` for its
-- receipt.
create or replace function evm.resync_insert(
  p_wallet smallint, p_nonce bigint, p_order uuid, p_recipient bytea, p_gas_limit bigint, p_hash bytea, p_max_fee text,
  p_tip text
)
  returns boolean language sql volatile
  as $$
    with wallet as (
      select pg_advisory_xact_lock(evm.wallet_lock_key(p_wallet))
    ), adopted as (
      insert into evm.tx (wallet, nonce, order_id, recipient, gas_limit, state)
      select w.id, p_nonce, (
        select p_order
        where not exists (select from evm.tx as t where t.order_id = p_order and t.state not in ('lost', 'void'))
      ), p_recipient, p_gas_limit, 'sent'
      from wallet
      join evm.wallet as w on w.id = p_wallet and w.state = 'off'
      where p_nonce = (select l.next_nonce from evm.wallet_load(p_wallet) as l)
      returning wallet, nonce
    ), version as (
      insert into evm.attempt (wallet, nonce, n, kind, hash, max_fee, tip)
      select a.wallet, a.nonce, 1, 'own', p_hash, p_max_fee::numeric, p_tip::numeric from adopted as a
      returning 1
    )
    select exists (select from version)
  $$;
