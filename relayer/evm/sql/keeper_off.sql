-- keeper_off: Takes a wallet out of use, for a cause that a person has to look into; returns whether it was in use.
create or replace function evm.keeper_off(p_wallet smallint, p_epoch bigint, p_cause text)
  returns boolean language sql volatile
  as $$
    with stopped as (
      update evm.wallet as w set state = 'off', off_cause = p_cause
      where w.id = p_wallet and w.state <> 'off' and evm.keeper_holds(p_wallet, p_epoch)
      returning 1
    )
    select exists (select from stopped)
  $$;
