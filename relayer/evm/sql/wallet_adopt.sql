-- wallet_adopt: Begins to use an account, from the nonce `p_first_nonce` on; null when it is a wallet already, or the
-- name is taken.
create or replace function evm.wallet_adopt(
  p_chain_id bigint, p_address bytea, p_name text, p_first_nonce bigint, p_in_flight_max integer
)
  returns smallint language sql volatile
  as $$
    insert into evm.wallet (
      chain_id, address, name, first_nonce, in_flight_max, system_identifier, timeline_id
    )
    select p_chain_id, p_address, p_name, p_first_nonce, p_in_flight_max, c.system_identifier, c.timeline_id
    from evm.cluster() as c
    on conflict do nothing
    returning id
  $$;
