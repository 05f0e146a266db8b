-- keeper_settle: Makes mined transactions final, whose receipts were found again in these final blocks; one whose
-- filler was mined becomes void, and its order is free. Forgets their signed bytes. Returns the lowest nonce that is
-- not final, lost or void; null when another epoch keeps the wallet.
create or replace function evm.keeper_settle(
  p_wallet smallint, p_epoch bigint, p_nonces bigint[], p_block_hashes bytea[]
)
  returns bigint language plpgsql volatile as $$
declare
  v_settled bigint;
begin
  if not evm.keeper_holds(p_wallet, p_epoch) then
    return null;
  end if;
  with settled as (
    update evm.tx as t
    set
      state = case a.kind when 'filler' then 'void' else 'final' end, calldata = null
    from unnest(p_nonces, p_block_hashes) as f(nonce, block_hash), evm.attempt as a
    where t.wallet = p_wallet and t.nonce = f.nonce and t.state = 'mined' and t.block_hash = f.block_hash
      and a.hash = t.mined_hash
    returning t.nonce
  )
  update evm.attempt as a set raw = null
  from settled as s
  where a.wallet = p_wallet and a.nonce = s.nonce;

  select coalesce(
    (
      select t.nonce from evm.tx as t
      where t.wallet = p_wallet and t.nonce >= k.settled_nonce and t.state not in ('final', 'lost', 'void')
      order by t.nonce limit 1
    ),
    (select max(t.nonce) + 1 from evm.tx as t where t.wallet = p_wallet), k.settled_nonce
  )
  into v_settled
  from evm.keeper as k
  where k.wallet = p_wallet;
  update evm.keeper as k set settled_nonce = v_settled where k.wallet = p_wallet and k.settled_nonce < v_settled;
  return v_settled;
end;
$$;
