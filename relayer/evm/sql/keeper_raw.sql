-- keeper_raw: The newest signed bytes of these nonces, in their order; none of a wallet that is off: it sends nothing.
create or replace function evm.keeper_raw(p_wallet smallint, p_nonces bigint[])
  returns table (nonce bigint, hash bytea, raw bytea)
  language sql volatile
  as $$
    select o.nonce, a.hash, a.raw
    from unnest(p_nonces) as o(nonce)
    cross join lateral (
      select b.hash, b.raw from evm.attempt as b
      where b.wallet = p_wallet and b.nonce = o.nonce
      order by b.n desc limit 1
    ) as a
    where a.raw is not null and exists (select from evm.wallet as w where w.id = p_wallet and w.state <> 'off')
    order by o.nonce
  $$;
