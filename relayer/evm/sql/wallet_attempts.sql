-- wallet_attempts: All that was signed for some nonces of a wallet: its transactions on the chain are compared with it.
create or replace function evm.wallet_attempts(p_wallet smallint, p_from bigint, p_below bigint)
  returns table (hash bytea, kind text, order_id uuid)
  language sql volatile
  as $$
    select a.hash, a.kind, t.order_id
    from evm.tx as t
    join evm.attempt as a on a.wallet = t.wallet and a.nonce = t.nonce
    where t.wallet = p_wallet and t.nonce >= p_from and t.nonce < p_below
  $$;
