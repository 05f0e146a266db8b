-- keeper_sign: Stores newer versions of transactions that are not mined; returns the nonces for which it did.
--
-- A version is stored only on top of the one that it was made from (number `n - 1`), so two keepers do not sign two. A
-- filler, an empty transaction that only uses up the nonce, is stored only if the order's request is missing, failed or
-- timed out, or if the signed bytes of the version before are deleted. Until the filler is final, the order gets no
-- other transaction.
create or replace function evm.keeper_sign(
  p_wallet smallint, p_epoch bigint, p_nonces bigint[], p_ns smallint[], p_kinds text[], p_hashes bytea[],
  p_raws bytea[], p_max_fees text[], p_tips text[]
)
  returns setof bigint language sql volatile
  as $$
    with version as materialized (
      select v.*
      from unnest(p_nonces, p_ns, p_kinds, p_hashes, p_raws, p_max_fees, p_tips)
        as v(nonce, n, kind, hash, raw, max_fee, tip)
      join evm.tx as t on t.wallet = p_wallet and t.nonce = v.nonce
      join evm.wallet as w on w.id = t.wallet and w.state <> 'off'
      where evm.keeper_holds(p_wallet, p_epoch)
        and t.state in ('signed', 'sent')
        and v.n = 1 + (select max(a.n) from evm.attempt as a where a.wallet = p_wallet and a.nonce = v.nonce)
        and (
          v.kind = 'own'
          or not exists (
            select from tidegate.request as r where r.id = t.order_id and r.req_status not in ('failure', 'timed_out')
          )
          or exists (
            select from evm.attempt as a
            where a.wallet = p_wallet and a.nonce = v.nonce and a.n = v.n - 1 and a.raw is null
          )
        )
      for no key update of t
    ), signed as (
      insert into evm.attempt (wallet, nonce, n, kind, hash, raw, max_fee, tip)
      select p_wallet, v.nonce, v.n, v.kind, v.hash, v.raw, v.max_fee::numeric, v.tip::numeric from version as v
      on conflict do nothing
      returning nonce
    )
    select s.nonce from signed as s order by s.nonce
  $$;
