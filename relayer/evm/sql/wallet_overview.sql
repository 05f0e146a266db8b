-- wallet_overview: The wallets of a chain, for operators.
--
-- `unmined_ms`: how long ago the lowest transaction that is not mined was signed; null without one. `first_block`: the
-- block of the wallet's first nonce; null while it is not mined.
create or replace function evm.wallet_overview(p_chain_id bigint)
  returns table (
    id smallint, name text, address bytea, state text, off_cause text, unfunded_cause text, first_nonce bigint,
    in_flight_max integer, next_nonce bigint, in_flight bigint, settled_nonce bigint, gas_limit bigint,
    unmined_ms bigint, first_block bigint
  )
  language sql volatile
  as $$
    select
      w.id, w.name, w.address, w.state, w.off_cause, w.unfunded_cause, w.first_nonce, w.in_flight_max, l.next_nonce,
      l.in_flight, coalesce(k.settled_nonce, w.first_nonce),
      (
        select max(n.gas_limit)
        from (select t.gas_limit from evm.tx as t where t.wallet = w.id order by t.nonce desc limit 64) as n
      ),
      (extract(epoch from tidegate.clock() - u.signed_at) * 1000)::bigint,
      (select t.block_number from evm.tx as t where t.wallet = w.id and t.nonce = w.first_nonce)
    from evm.wallet as w
    cross join lateral evm.wallet_load(w.id) as l
    left join evm.keeper as k on k.wallet = w.id
    left join evm.tx as u on u.wallet = w.id and u.nonce = l.next_nonce - l.in_flight and u.state in ('signed', 'sent')
    where w.chain_id = p_chain_id
    order by w.name
  $$;
