-- keeper_wallet: A wallet as its keeper sees it; no row when another epoch keeps it.
--
-- `copied`: this is another PostgreSQL cluster than the one that adopted the wallet, or another timeline of it.
-- `gas_limit`: the greatest of the last 64 transactions. `is_open`: whether that of `settled_nonce` is not mined.
create or replace function evm.keeper_wallet(p_wallet smallint, p_epoch bigint)
  returns table (
    state text, unfunded_cause text, in_flight_max integer, next_nonce bigint, settled_nonce bigint, copied boolean,
    gas_limit bigint, at timestamptz, is_open boolean
  )
  language sql volatile
  as $$
    select
      w.state, w.unfunded_cause, w.in_flight_max,
      coalesce((select max(t.nonce) + 1 from evm.tx as t where t.wallet = p_wallet), w.first_nonce), k.settled_nonce,
      (w.system_identifier, w.timeline_id) <> (c.system_identifier, c.timeline_id),
      (
        select max(n.gas_limit)
        from (
          select t.gas_limit from evm.tx as t where t.wallet = p_wallet order by t.nonce desc limit 64
        ) as n
      ), tidegate.clock(), exists (
        select from evm.tx as t
        where t.wallet = p_wallet and t.nonce = k.settled_nonce and t.state in ('signed', 'sent')
      )
    from evm.wallet as w
    join evm.keeper as k on k.wallet = w.id and k.epoch = p_epoch
    cross join evm.cluster() as c
    where w.id = p_wallet
  $$;
