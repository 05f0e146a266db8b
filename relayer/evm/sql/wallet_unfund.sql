-- wallet_unfund: Stops new orders of a wallet until it has funds; returns whether it took them before.
create or replace function evm.wallet_unfund(p_wallet smallint, p_cause text)
  returns boolean language sql volatile
  as $$
    with stopped as (
      update evm.wallet as w set unfunded_cause = p_cause
      where w.id = p_wallet and w.unfunded_cause is null
      returning 1
    )
    select exists (select from stopped)
  $$;
