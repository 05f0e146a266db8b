-- allocation_begin: The first statement of the transaction that takes nonces: holds the requests by their leases, then
-- locks the wallet, and returns which orders may have a nonce of it.
--
-- `fates`, in the order given: `free` may have one; `slot` has a transaction already; `ended`: its lease is not held;
-- `locked`: another transaction has the request locked, ask again. `room`: how many nonces may be taken, from
-- `next_nonce` on; none when the wallet has a `refusal`. Raises 55P03 when the wallet is locked for `p_lock_ms`.
create or replace function evm.allocation_begin(
  p_wallet smallint, p_tokens bigint[], p_ids uuid[], p_lock_ms integer,
  out refusal text, out next_nonce bigint, out room bigint, out fates text[]
)
  language plpgsql volatile as $$
declare
  v_held bigint[];
begin
  -- A client that vanishes must not keep the wallet.
  perform
    set_config('synchronous_commit', 'on', true), set_config('lock_timeout', p_lock_ms::text, true),
    set_config('idle_in_transaction_session_timeout', '2s', true),
    set_config('client_connection_check_interval', '1s', true);
  select array_agg(o.place) into v_held
  from unnest(p_tokens, p_ids) with ordinality as o(token, id, place)
  join tidegate.hold_leases(array(
    select row((select c.queue from tidegate.claim as c where c.token = g.token limit 1), g.token, g.id)::tidegate.lease
    from unnest(p_tokens, p_ids) as g(token, id)
  )) as h on h.token = o.token and h.id = o.id;
  perform pg_advisory_xact_lock(evm.wallet_lock_key(p_wallet));

  -- From here on snapshots are later than the lock, and have what its last holder committed.
  select l.refusal, l.next_nonce, case when l.refusal is null then w.in_flight_max - l.in_flight else 0 end
  into refusal, next_nonce, room
  from evm.wallet_load(p_wallet) as l
  left join evm.wallet as w on w.id = p_wallet;
  fates := array(
    select case
      when exists (select from evm.tx as t where t.order_id = o.id and t.state not in ('lost', 'void')) then 'slot'
      when o.place = any(v_held) then 'free'
      when exists (
        select from tidegate.request as r
        join tidegate.claim as c on c.token = r.lease
        where r.id = o.id and r.lease = o.token and r.req_status = 'tx_in_flight'
          and tidegate.is_held(c.until, c.lease_ms, tidegate.clock())
      ) then 'locked'
      else 'ended'
    end
    from unnest(p_tokens, p_ids) with ordinality as o(token, id, place)
    order by o.place
  );
end;
$$;
