-- contract_keys: Fingerprints and lifetimes of the newest idempotency keys of a kind, for contracts.
--
-- Of the newest 5000 keys at most 1000 of the kind (`stored`): how many stand for one payload that is there (`keys`),
-- and how many of these have another fingerprint than it has now (`differing`, one request of them in `example`); how
-- many are kept for less than `p_window` (`short`); how many that live stand for a request that is gone, or is of
-- another kind (`astray`). The key of a whole batch stands for several payloads, and one that decides alone for any.
create or replace function tidegate_internal.contract_keys(
  p_kind text, p_window interval,
  out stored bigint, out keys bigint, out differing bigint, out example uuid, out short bigint, out shortest interval,
  out alive bigint, out astray bigint
)
  language sql stable as $$
  select
    count(*), count(k.derived), count(*) filter (where k.derived <> k.fingerprint),
    (array_agg(k.request_id) filter (where k.derived <> k.fingerprint))[1],
    count(*) filter (where k.short), min(k.kept),
    count(*) filter (where k.alive), count(*) filter (where k.alive and k.of_kind is distinct from p_kind)
  from (
    select
      n.request_id, n.fingerprint, r.kind as of_kind, n.expires_at > tidegate.clock() as alive,
      n.expires_at - n.first_seen as kept,
      -- In UTC, where each day has 24 hours.
      n.expires_at at time zone 'UTC' < n.first_seen at time zone 'UTC' + p_window as short,
      case when n.key !~ '^batch [0-9a-f]{64}$' and n.fingerprint <> ''
        then tidegate_internal.fingerprint(
          r.payload, (select i.set_paths from tidegate.kind as i where i.name = p_kind)
        )
      end as derived
    from (
      select d.*
      from (select e.* from tidegate.dedup as e order by e.expires_at desc limit 5000) as d
      -- A scope begins with its kind, or with how the key was derived and then the kind.
      where substring(d.scope from '^(?:natural |proxy )?([a-z][a-z0-9_]*):') = p_kind
      order by d.expires_at desc
      limit 1000
    ) as n
    left join tidegate.request as r on r.id = n.request_id
  ) as k;
$$;
