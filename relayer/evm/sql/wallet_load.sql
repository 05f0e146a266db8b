-- wallet_load: The next nonce of a wallet, how many of its transactions are signed and not mined, and why it takes no
-- new orders (null: it takes them).
--
-- Nonces are mined in their order, so all up to the highest mined one are mined. Reads from the highest nonce down
-- along the primary key, because an index on states would be full of dead entries while an old snapshot is open.
create or replace function evm.wallet_load(
  p_wallet smallint, out next_nonce bigint, out in_flight bigint, out refusal text
)
  language plpgsql volatile as $$
declare
  v_wallet  evm.wallet;
  v_closed  bigint;
  v_answer  text;
begin
  select * into v_wallet from evm.wallet as w where w.id = p_wallet;
  next_nonce := coalesce((select max(t.nonce) + 1 from evm.tx as t where t.wallet = p_wallet), v_wallet.first_nonce);
  v_closed := coalesce((
    select t.nonce from evm.tx as t
    where t.wallet = p_wallet and t.state not in ('signed', 'sent')
    order by t.nonce desc limit 1
  ), v_wallet.first_nonce - 1);
  in_flight := next_nonce - 1 - v_closed;
  select a.answer into v_answer
  from evm.attempt as a
  where a.wallet = p_wallet and a.nonce = v_closed + 1
  order by a.n desc limit 1;
  refusal := case
    when v_wallet.id is null then 'unknown'
    when v_wallet.state <> 'active' then v_wallet.state
    when (v_wallet.system_identifier, v_wallet.timeline_id) <> (
      select c.system_identifier, c.timeline_id from evm.cluster() as c
    ) then 'copied'
    when v_wallet.unfunded_cause is not null then 'unfunded'
    -- The lowest one must be mined first.
    when v_answer in ('fee_too_low', 'no_funds', 'gas', 'wrong_chain', 'too_large', 'bad_bytes') then 'refused'
  end;
end;
$$;
