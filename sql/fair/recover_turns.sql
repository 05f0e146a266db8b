-- recover_turns: Makes the turns and the journal of a fair queue again from its messages; what is lost is how far each
-- key had come in its round.
--
-- In one statement: submissions that have not committed by its snapshot bring their own rows.
create or replace function tidegate_internal.recover_turns(p_queue text)
  returns void language plpgsql as $$
declare
  v_now constant timestamptz := tidegate.clock();
begin
  perform tidegate_internal.require_read_committed('recover');
  perform pg_advisory_xact_lock(tidegate.queue_lock_key(p_queue, 'turns'));
  case p_queue
    -- each fair queue
    when 'QUEUE' then
      with turns as (
        delete from tidegate.turn_QUEUE
      ), journal as (
        delete from tidegate.arrival_QUEUE
      )
      insert into tidegate.arrival_QUEUE (at, key, first, n, urgent)
      select m.at, m.fair_key, min(m.msg_id), count(*), true
      from (select q.fair_key, q.msg_id, greatest(q.vt, v_now) as at from pgmq.q_QUEUE as q) as m
      group by m.fair_key, m.at;
      perform setval('tidegate.ready_no_QUEUE', 0);
      -- No tag is remembered, so virtual time falls to the mark.
      perform setval('tidegate.forgotten_QUEUE', coalesce(pg_sequence_last_value('tidegate.ready_tag_QUEUE'), 0));
    -- end of each queue
    else perform tidegate_internal.refuse_queue(p_queue);
  end case;
end;
$$;
