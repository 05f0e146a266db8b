-- turn_places: In which order a claim that has taken these requests of a fair queue may hand them out, if it may hand
-- out only those that are `p_open`; no row in a fifo queue.
--
-- As if the others were not there: by the number of its key's open requests before it, not of all that the claim has
-- taken. Else a key would be charged for what is put back, because its open requests stand behind it. The caller holds
-- the lock `turns`.
create or replace function tidegate_internal.turn_places(p_queue text, p_ids uuid[], p_open boolean[])
  returns table (nth bigint, place bigint) language plpgsql stable as $$
#variable_conflict use_column
declare
  v_tag bigint;
begin
  case p_queue
    -- each fair queue
    when 'QUEUE' then
      v_tag := coalesce(pg_sequence_last_value('tidegate.ready_tag_QUEUE'), 0);
      return query
        with taken as materialized (
          select i.id, i.nth, i.is_open, tidegate_internal.fair_key(q.fair_by, r.submitter, r.kind) as key
          from unnest(p_ids, p_open) with ordinality as i(id, is_open, nth)
          left join tidegate.request as r on r.id = any(array[i.id])
          cross join (select f.fair_by from tidegate.queue as f where f.name = p_queue) as q
        ), of_key as materialized (
          select k.key, t.tag - k.n * t.cost as tag, t.no, t.cost
          from (select a.key, count(*) as n from taken as a group by a.key) as k
          left join lateral (
            select u.tag, u.no, u.cost
            from tidegate.turn_QUEUE as u
            where u.key = k.key and u.tag >= v_tag
            order by u.tag desc
            limit 1
          ) as t on true
        )
        select o.nth, row_number() over (order by o.starts, o.no, o.nth)
        from (
          select
            a.nth, k.no, k.tag + k.cost * (row_number() over (partition by a.key order by a.nth) - 1) as starts
          from taken as a
          join of_key as k on k.key = a.key
          where a.is_open
        ) as o;
    -- end of each queue
    else null;
  end case;
end;
$$;
select tidegate_internal.plan_along_indexes('turn_places', 'sort');
