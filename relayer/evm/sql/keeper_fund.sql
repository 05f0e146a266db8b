-- keeper_fund: Records why a wallet takes no new orders until it has funds; null: it has them. Returns whether that is
-- news.
create or replace function evm.keeper_fund(p_wallet smallint, p_epoch bigint, p_cause text)
  returns boolean language sql volatile
  as $$
    with changed as (
      update evm.wallet as w set unfunded_cause = p_cause
      where w.id = p_wallet and (w.unfunded_cause is null) <> (p_cause is null) and evm.keeper_holds(p_wallet, p_epoch)
      returning 1
    )
    select exists (select from changed)
  $$;
