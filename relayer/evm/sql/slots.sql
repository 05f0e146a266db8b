-- slots: The live transactions of these orders, each with the hashes of all its versions, the first one first.
--
-- `kinds` and `answers` are those of the versions. `raw`, if `p_with_raw`, is the newest version of one that is not
-- mined, of a wallet that may send.
create or replace function evm.slots(p_ids uuid[], p_with_raw boolean)
  returns table (
    order_id uuid, wallet smallint, wallet_name text, address bytea, nonce bigint, state text, gas_limit bigint,
    hashes bytea[], kinds text[], answers text[], age_ms bigint, raw bytea
  )
  language sql volatile
  as $$
    select
      t.order_id, t.wallet, w.name, w.address, t.nonce, t.state, t.gas_limit, a.hashes, a.kinds, a.answers, a.age_ms,
      case when p_with_raw and t.state in ('signed', 'sent') and w.state <> 'off' then (
        select b.raw from evm.attempt as b where b.wallet = t.wallet and b.nonce = t.nonce order by b.n desc limit 1
      ) end
    from unnest(p_ids) as o(id)
    join evm.tx as t on t.order_id = o.id and t.state not in ('lost', 'void')
    join evm.wallet as w on w.id = t.wallet
    cross join lateral (
      select
        array_agg(b.hash order by b.n) as hashes, array_agg(b.kind order by b.n) as kinds,
        array_agg(b.answer order by b.n) as answers,
        (extract(epoch from tidegate.clock() - max(coalesce(b.sent_at, b.signed_at))) * 1000)::bigint as age_ms
      from evm.attempt as b
      where b.wallet = t.wallet and b.nonce = t.nonce
    ) as a
    order by t.wallet, t.nonce
  $$;
