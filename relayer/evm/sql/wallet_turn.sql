-- wallet_turn: Changes the state of a wallet: `draining` takes no new orders, `off` sends nothing at all. Returns
-- whether it had another one. `resync` ends `off`.
create or replace function evm.wallet_turn(p_wallet smallint, p_state text, p_off_cause text)
  returns boolean language sql volatile
  as $$
    with turned as (
      update evm.wallet as w set state = p_state, off_cause = p_off_cause
      where w.id = p_wallet and w.state <> p_state and w.state <> 'off'
      returning 1
    )
    select exists (select from turned)
  $$;
