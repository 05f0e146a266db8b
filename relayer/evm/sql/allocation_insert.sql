-- allocation_insert: Stores signed transactions, one for each nonce from `p_first_nonce` on, in the transaction that
-- `allocation_begin` began; returns how many: none when the first nonce is not the wallet's next.
create or replace function evm.allocation_insert(
  p_wallet smallint, p_first_nonce bigint, p_max_fee numeric, p_tip numeric, p_ids uuid[], p_recipients bytea[],
  p_calldata bytea[], p_gas_limits bigint[], p_hashes bytea[], p_raws bytea[]
)
  returns bigint language sql volatile
  as $$
    with slot as materialized (
      select p_first_nonce + o.place - 1 as nonce, o.*
      from unnest(p_ids, p_recipients, p_calldata, p_gas_limits, p_hashes, p_raws) with ordinality
        as o(id, recipient, calldata, gas_limit, hash, raw, place)
      where p_first_nonce = (select l.next_nonce from evm.wallet_load(p_wallet) as l)
    ), taken as (
      insert into evm.tx (wallet, nonce, order_id, recipient, calldata, gas_limit)
      select p_wallet, s.nonce, s.id, s.recipient, s.calldata, s.gas_limit from slot as s order by s.nonce
    ), signed as (
      insert into evm.attempt (wallet, nonce, n, kind, hash, raw, max_fee, tip)
      select p_wallet, s.nonce, 1, 'own', s.hash, s.raw, p_max_fee, p_tip from slot as s order by s.nonce
      returning 1
    )
    select count(*) from signed
  $$;
