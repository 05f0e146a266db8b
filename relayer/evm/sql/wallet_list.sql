-- wallet_list: The wallets of a chain with these addresses, and what each has to do; see `wallet_load`.
--
-- `hole_seconds`: how long the lowest transaction that is not mined has been signed without being sent; null when it
-- was sent.
create or replace function evm.wallet_list(p_chain_id bigint, p_addresses bytea[])
  returns table (
    id smallint, address bytea, name text, in_flight_max integer, next_nonce bigint, in_flight bigint, refusal text,
    hole_seconds float8
  )
  language sql volatile
  as $$
    select
      w.id, w.address, w.name, w.in_flight_max, l.next_nonce, l.in_flight, l.refusal,
      extract(epoch from tidegate.clock() - t.signed_at)::float8
    from evm.wallet as w
    cross join lateral evm.wallet_load(w.id) as l
    left join evm.tx as t on t.wallet = w.id and t.nonce = l.next_nonce - l.in_flight and t.state = 'signed'
    where w.chain_id = p_chain_id and w.address = any(p_addresses)
    order by w.id
  $$;
