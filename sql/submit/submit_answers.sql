-- submit_answers: Answers a submission that is not new as a whole: it has earlier requests, or some were refused.
--
-- `p_ids` are the requests that answer, null where none does, and `p_own` the ids that they would have had. `p_new` are
-- the new ones; as many as `p_told` has were let in, and the first of these finds `p_waiting` messages before it. The
-- others are refused, and told to submit again in `p_wait` seconds. A replay is told its place exactly as a poll would
-- be, except in a group (`p_each`): see `submit_group`.
create or replace function tidegate_internal.submit_answers(
  p_ids     uuid[],
  p_own     uuid[],
  p_each    boolean,
  p_new     uuid[] default null,
  p_told    tidegate.retry_after[] default null,
  p_waiting bigint default null,
  p_wait    integer default null
)
  returns table (
    id uuid, outcome text, req_status tidegate.request_status, queue text, queue_position bigint,
    retry_after_seconds integer, eta_p50_ms bigint, eta_p90_ms bigint
  )
  language plpgsql
  -- A plan that is kept may have been made for empty tables: joined as written, along indexes, it serves full ones,
  -- too.
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_mergejoin = off
  set join_collapse_limit = 1
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  return query
    select
      r.id, case when r.id is null then 'refused' when s.id = s.own then 'accepted' else 'replayed' end, r.req_status,
      r.queue,
      coalesce(p_waiting + s.number - 1, e.queue_position),
      coalesce(s.seconds, e.retry_after_seconds, case when r.id is null then p_wait end),
      coalesce(s.p50_ms, e.eta_p50_ms), coalesce(s.p90_ms, e.eta_p90_ms)
    from (
      -- By a window: two arrays of ten thousand are not to be joined as if they were short.
      select
        a.id, a.own, a.place, max(a.number) over same as number, max(a.seconds) over same as seconds,
        max(a.p50_ms) over same as p50_ms, max(a.p90_ms) over same as p90_ms
      from (
        select
          u.id, u.own, u.place, null::bigint as number, null::integer as seconds, null::bigint as p50_ms,
          null::bigint as p90_ms
        from unnest(p_ids, p_own) with ordinality as u(id, own, place)
        union all
        select n.id, null, null, n.number, n.seconds, n.p50_ms, n.p90_ms
        from unnest(p_new, p_told) with ordinality as n(id, seconds, p50_ms, p90_ms, number)
      ) as a
      window same as (partition by a.id)
    ) as s
    left join tidegate.request as r on r.id = s.id
    left join lateral tidegate.request_outlook(r.id) as e on s.number is null and not p_each
    where s.place is not null
    order by s.place;
end;
$$;
