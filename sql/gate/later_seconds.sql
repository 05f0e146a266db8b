-- later_seconds: In how many seconds enough of a queue's snoozed messages come due for `p_above` of `p_depth` to leave.
--
-- Null when that many wait or are held now: then it depends on the queue's rate. Counted up to ten thousand messages.
create or replace function tidegate_internal.later_seconds(p_queue text, p_depth bigint, p_above bigint)
  returns integer language plpgsql stable as $$
declare
  v_now   constant timestamptz := tidegate.clock();
  v_times timestamptz[];
  v_place bigint;
begin
  if p_above <= 0 then
    return null;
  end if;
  case p_queue
    -- each queue
    when 'QUEUE' then
      -- Its table may have been dropped.
      if to_regclass('pgmq.q_QUEUE') is null then
        return null;
      end if;
      select array_agg(m.vt order by m.vt) into v_times
      from (
        select q.vt from pgmq.q_QUEUE as q where q.vt > '-infinity' and q.vt > v_now order by q.vt limit 10000
      ) as m;
    -- end of each queue
    else return null;
  end case;
  v_place := p_above - (p_depth - coalesce(cardinality(v_times), 0));
  return case when v_place > 0 then least(ceil(extract(epoch from v_times[v_place] - v_now)), 2147483647) end;
end;
$$;
select tidegate_internal.plan_along_indexes('later_seconds');
