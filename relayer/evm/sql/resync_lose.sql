-- resync_lose: Gives a nonce up that a foreign transaction has used, in a final block: its order is free. Returns
-- whether it did.
create or replace function evm.resync_lose(p_wallet smallint, p_nonce bigint)
  returns boolean language sql volatile
  as $$
    with lost as (
      update evm.tx as t set state = 'lost', calldata = null
      from evm.wallet as w
      where t.wallet = p_wallet and t.nonce = p_nonce and t.state in ('signed', 'sent')
        and w.id = t.wallet and w.state = 'off'
      returning t.wallet, t.nonce
    ), forgotten as (
      update evm.attempt as a set raw = null from lost as l where a.wallet = l.wallet and a.nonce = l.nonce
    )
    select exists (select from lost)
  $$;
