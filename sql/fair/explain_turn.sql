-- explain_turn: How a waiting message of a fair queue stands: how many messages of its key wait before it, how many
-- keys take turns, and whether its own is paused.
create or replace function tidegate_internal.explain_turn(
  p_queue text, p_msg_id bigint, p_now timestamptz, out before bigint, out keys bigint, out key_paused boolean
)
  language plpgsql stable as $$
begin
  case p_queue
    -- each fair queue
    when 'QUEUE' then
      select
        (
          select count(*)
          from pgmq.q_QUEUE as m
          join pgmq.q_QUEUE as q
            on q.fair_key >= m.fair_key and (q.fair_key, q.msg_id) < (m.fair_key, m.msg_id)
              and coalesce(q.vt <= p_now, false)
          where m.msg_id = p_msg_id
        ), (
          select count(*) from tidegate.turn_QUEUE as t where t.tag >= 0 and t.idle_at is null
        ), coalesce((
          select s.paused
          from pgmq.q_QUEUE as m
          join tidegate.fair_key as s on s.queue = p_queue and s.key = m.fair_key
          where m.msg_id = p_msg_id
        ), false)
      into before, keys, key_paused;
    -- end of each queue
    -- A fifo queue has no turns.
    else null;
  end case;
end;
$$;
select tidegate_internal.plan_along_indexes('explain_turn', 'sort');
