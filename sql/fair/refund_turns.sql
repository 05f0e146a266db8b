-- refund_turns: Gives keys of a fair queue back what a claim was charged for messages that it has put back, at these
-- times.
--
-- Else a half-open breaker of one kind would take all turns of a key from its other kinds. A key that waits on does not
-- become idle: if all did, virtual time would be that of the one that was served, and the others would come behind it.
-- The caller holds the lock `turns`.
create or replace function tidegate_internal.refund_turns(
  p_queue text, p_msg_ids bigint[], p_ids uuid[], p_visible timestamptz[], p_now timestamptz
)
  returns void language plpgsql as $$
declare
  v_tag bigint;
begin
  case p_queue
    -- each fair queue
    when 'QUEUE' then
      v_tag := coalesce(pg_sequence_last_value('tidegate.ready_tag_QUEUE'), 0);
      update tidegate.turn_QUEUE as t
      set
        tag = t.tag - k.n * t.cost, head = least(t.head, k.first),
        idle_at = case when k.first is null then t.idle_at end
      from (
        select
          tidegate_internal.fair_key(q.fair_by, r.submitter, r.kind) as key, count(*) as n,
          min(b.msg_id) filter (where b.visible <= p_now) as first
        from unnest(p_msg_ids, p_ids, p_visible) as b(msg_id, id, visible)
        join tidegate.request as r on r.id = any(array[b.id])
        cross join (select f.fair_by from tidegate.queue as f where f.name = p_queue) as q
        group by 1
      ) as k
      cross join lateral (
        select u.ctid as tid
        from tidegate.turn_QUEUE as u
        where u.key = k.key and u.tag >= v_tag and u.tag < tidegate_internal.paused_tags()
        order by u.tag desc
        limit 1
      ) as own
      where t.ctid = own.tid;
    -- end of each queue
    -- Other queues charge nothing.
    else null;
  end case;
end;
$$;
select tidegate_internal.plan_along_indexes('refund_turns', 'sort');
