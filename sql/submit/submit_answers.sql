-- submit_answers: The result of a submission that is not new as a whole: some requests are replays, or some were
-- refused.
--
-- `p_ids` are the requests found or made, null where there is none, and `p_own` the ids that new ones would have had.
-- `p_new` are the new ones; as many as `p_etas` has were let in, and `p_waiting` messages wait before the first of
-- these, in a fair queue `p_positions` before each. The others are refused, with a Retry-After of `p_wait` seconds. A
-- replay gets its position as a poll would, except in a group (`p_each`): see `submit_group`. Every replay is returned,
-- and so counted, here.
create or replace function tidegate_internal.submit_answers(
  p_kind text, p_ids uuid[], p_own uuid[], p_each boolean, p_new uuid[] default null,
  p_etas tidegate.retry_after[] default null, p_waiting bigint default null, p_positions bigint[] default null,
  p_wait integer default null
)
  returns table (
    id uuid, outcome text, req_status tidegate.request_status, queue text, queue_position bigint,
    retry_after_seconds integer, eta_p50_ms bigint, eta_p90_ms bigint
  )
  language plpgsql as $$
begin
  return query
    with answered as materialized (
      select
        r.id, case when r.id is null then 'refused' when s.id = s.own then 'accepted' else 'replayed' end as outcome,
        r.req_status, r.queue, s.queue_position, coalesce(s.seconds, case when r.id is null then p_wait end) as seconds,
        s.p50_ms, s.p90_ms, s.place
      from (
        -- By a window: two arrays of ten thousand are not to be joined as if they were short.
        select
          a.id, a.own, a.place, max(a.queue_position) over same as queue_position, max(a.seconds) over same as seconds,
          max(a.p50_ms) over same as p50_ms, max(a.p90_ms) over same as p90_ms
        from (
          select
            u.id, u.own, u.place, null::bigint as queue_position, null::integer as seconds, null::bigint as p50_ms,
            null::bigint as p90_ms
          from unnest(p_ids, p_own) with ordinality as u(id, own, place)
          union all
          select
            n.id, null, null, coalesce(n.queue_position, p_waiting + n.number - 1), n.seconds, n.p50_ms, n.p90_ms
          from unnest(p_new, p_etas, p_positions) with ordinality
            as n(id, seconds, p50_ms, p90_ms, queue_position, number)
          union all
          select o.id, null, null, o.queue_position, o.retry_after_seconds, o.eta_p50_ms, o.eta_p90_ms
          from tidegate.request_outlooks(array(
            select f.id from unnest(p_ids) as f(id) where f.id is not null
            except
            select n.id from unnest(p_new) as n(id)
          )) as o
          where not p_each
        ) as a
        window same as (partition by a.id)
      ) as s
      left join tidegate.request as r on r.id = s.id
      where s.place is not null
    )
    select
      a.id, a.outcome, a.req_status, a.queue, a.queue_position, a.seconds, a.p50_ms, a.p90_ms
    from answered as a
    -- Runs once, before the rows are returned.
    cross join (
      select count(tidegate_internal.count_replays(p_kind, n.replays))
      from (select count(*) as replays from answered as c where c.outcome = 'replayed') as n
      where n.replays > 0
    ) as counted
    order by a.place;
end;
$$;
select tidegate_internal.plan_along_indexes('submit_answers', 'hashjoin');
