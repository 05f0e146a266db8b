-- delete_from_turns: Deletes messages of a fair queue that no claim has taken, and tells the journal how many of each
-- key.
--
-- The row of one that would have come due later counts from then on, as that of its arrival does.
create or replace function tidegate_internal.delete_from_turns(p_queue text, p_msg_ids bigint[])
  returns void language plpgsql as $$
declare
  v_now constant timestamptz := tidegate.clock();
begin
  case p_queue
    -- each fair queue
    when 'QUEUE' then
      with gone as (
        delete from pgmq.q_QUEUE as m where m.msg_id = any(p_msg_ids) returning m.fair_key, m.vt
      )
      insert into tidegate.arrival_QUEUE (at, key, n, urgent)
      select g.at, g.fair_key, -count(*), false
      from (select gone.fair_key, greatest(gone.vt, v_now) as at from gone) as g
      group by g.at, g.fair_key;
    -- end of each queue
    else perform tidegate_internal.refuse_queue(p_queue);
  end case;
end;
$$;
select tidegate_internal.plan_along_indexes('delete_from_turns');
