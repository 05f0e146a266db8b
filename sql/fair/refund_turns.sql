-- refund_turns: Gives keys of a fair queue back what a claim was charged for requests that it does not hand out.
--
-- Else a half-open breaker of one kind would take all turns of a key from its other kinds. The caller holds the lock
-- `turns`.
create or replace function tidegate_internal.refund_turns(p_queue text, p_ids uuid[])
  returns void language plpgsql as $$
declare
  v_tag bigint;
begin
  case p_queue
    -- each fair queue
    when 'QUEUE' then
      v_tag := coalesce(pg_sequence_last_value('tidegate.ready_tag_QUEUE'), 0);
      update tidegate.turn_QUEUE as t
      set tag = t.tag - k.n * t.cost
      from (
        select tidegate_internal.fair_key(q.fair_by, r.submitter, r.kind) as key, count(*) as n
        from unnest(p_ids) as i(id)
        join tidegate.request as r on r.id = any(array[i.id])
        cross join (select f.fair_by from tidegate.queue as f where f.name = p_queue) as q
        group by 1
      ) as k
      where t.key = k.key and t.tag >= v_tag;
    -- end of each queue
    -- Other queues charge nothing.
    else null;
  end case;
end;
$$;
select tidegate_internal.plan_along_indexes('refund_turns');
