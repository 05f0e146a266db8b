-- expire_requests: One batch of a maintenance duty: deletes requests that ended before the retention of their kind.
--
-- The oldest ids first: ids ascend with time, so the candidates are a range of each kind. Dependent rows are deleted
-- with a request (see `request_removal`), and its history; the partitions of days that are empty then are dropped
-- (see `drop_partitions`). Keys went before: a window is no longer than the retention, and where both
-- were shortened, requests stay for as long as keys from before stand for them. Live requests stay, however old; so do
-- those that ended lately, those that were redriven as a request that is there, because keys lead to it through them,
-- and, in kinds whose keys stand until then, those that are not resolved. They are examined again in the next round.
-- What an application's foreign key or trigger keeps is passed over (see `try_each`).
-- Returns how many it deleted, and whether to go on.
create or replace function tidegate.expire_requests(batch integer default 1000, out expired bigint, out more boolean)
  language plpgsql security definer
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_no_id   constant uuid := '00000000-0000-0000-0000-000000000000';
  v_now     constant timestamptz := tidegate.clock();
  v_examine constant integer := 10 * batch;
  v_left    integer := batch;
  v_kind    record;
  v_floor   uuid;
  v_ids     uuid[];
  v_next    uuid;
begin
  expired := 0;
  more := false;
  if not pg_try_advisory_xact_lock(hashtextextended('tidegate.expire_requests', 0)) then
    return;
  end if;

  for v_kind in
    select
      k.name, v_now - greatest(k.retention, tidegate_internal.longest_window(k.name)) as before,
      coalesce(w.after, v_no_id) as after, k.key_after_unknown = 'resolved' as until_resolved
    from tidegate.kind as k
    left join tidegate.retention_walk as w on w.kind = k.name
    where k.retention is not null
    order by k.name
  loop
    v_floor := tidegate.uuid_v7_floor(v_kind.before);
    -- Read no further than to the last one that fits the batch.
    v_ids := array(
      select e.id
      from (
        select
          r.kind, r.id, r.req_status in ('completed', 'timed_out', 'failure') and r.finished_at < v_kind.before
            and (
              r.req_status = 'completed'
              or not (v_kind.until_resolved and tidegate.executed(r) = 'unknown') and not exists (
                select from tidegate.redrive as v join tidegate.request as n on n.id = v.redriven_as
                where v.request_id = r.id
              )
            ) and not tidegate_internal.is_passed_over(r.id, 'expire_requests') as old
        from tidegate.request as r
        -- Compared as pairs, so that no index but (kind, id) will do.
        where r.kind >= '' and (r.kind, r.id) > (v_kind.name, v_kind.after)
          and (r.kind, r.id) < (v_kind.name, v_floor)
        order by r.kind, r.id
        limit v_examine
      ) as e
      where e.old
      order by e.kind, e.id
      limit v_left
    );
    v_next := case when cardinality(v_ids) = v_left then v_ids[v_left] else (
      select r.id
      from tidegate.request as r
      where r.kind >= '' and (r.kind, r.id) > (v_kind.name, v_kind.after)
        and (r.kind, r.id) < (v_kind.name, v_floor)
      order by r.kind, r.id
      offset v_examine - 1
      limit 1
    ) end;

    if v_ids <> '{}' then
      expired := expired + cardinality(tidegate_internal.try_each(
        'expire_requests', v_ids, 'select tidegate_internal.delete_requests($1)'
      ));
      v_left := v_left - cardinality(v_ids);
    end if;
    -- At the end of the range the next round begins.
    if coalesce(v_next, v_no_id) <> v_kind.after then
      insert into tidegate.retention_walk as w (kind, after)
      values (v_kind.name, coalesce(v_next, v_no_id))
      on conflict (kind) do update set after = excluded.after;
    end if;
    more := more or v_next is not null;
    exit when v_left <= 0;
  end loop;
end;
$$;
select tidegate_internal.allow('expire_requests', '{api,worker,admin}');
