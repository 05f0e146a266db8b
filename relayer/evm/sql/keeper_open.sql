-- keeper_open: The transactions of a wallet that are signed and not mined, from a nonce on, in their order.
--
-- `hashes`: of all versions, the first one first. The other columns are those of the newest version: `age_ms` is the
-- time since it was last sent, or signed if it was not sent. `ended_ms`: since when the nonce is only to be used up:
-- its request ended and was not completed, or there are no signed bytes; null while it is not so. Read along the
-- primary key, because an index on states would be full of dead entries while an old snapshot is open.
create or replace function evm.keeper_open(p_wallet smallint, p_from bigint)
  returns table (
    nonce bigint, state text, signed_at timestamptz, hashes bytea[], n smallint, kind text, max_fee text, tip text,
    answer text, age_ms bigint, ended_ms bigint
  )
  language sql volatile
  as $$
    select
      t.nonce, t.state, t.signed_at, h.hashes, a.n, a.kind, a.max_fee::text, a.tip::text, a.answer,
      (extract(epoch from tidegate.clock() - coalesce(a.sent_at, a.signed_at)) * 1000)::bigint,
      case when r.finished_at is not null or r.id is null or a.raw is null then (
        extract(epoch from tidegate.clock() - greatest(r.finished_at, t.signed_at)) * 1000
      )::bigint end
    from evm.tx as t
    cross join lateral (
      select array_agg(b.hash order by b.n) as hashes
      from evm.attempt as b
      where b.wallet = t.wallet and b.nonce = t.nonce
    ) as h
    cross join lateral (
      select b.* from evm.attempt as b where b.wallet = t.wallet and b.nonce = t.nonce order by b.n desc limit 1
    ) as a
    left join lateral (
      select q.id, case when q.req_status in ('failure', 'timed_out') then q.finished_at end as finished_at
      from tidegate.request as q
      where q.id = t.order_id
    ) as r on true
    where t.wallet = p_wallet and t.nonce >= p_from and t.state in ('signed', 'sent')
    order by t.nonce
  $$;
