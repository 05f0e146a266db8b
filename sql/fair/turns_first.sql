-- turns_first: The first `p_batch` messages of a fair queue that wait, in the order in which claims would take them.
create or replace function tidegate_internal.turns_first(p_queue text, p_batch integer, p_now timestamptz)
  returns table (msg_id bigint, message jsonb, vt timestamptz) language plpgsql stable as $$
#variable_conflict use_column
declare
  v_tag bigint;
  v_no  bigint;
begin
  case p_queue
    -- each fair queue
    when 'QUEUE' then
      v_tag := coalesce(pg_sequence_last_value('tidegate.ready_tag_QUEUE'), 0);
      v_no := coalesce(pg_sequence_last_value('tidegate.ready_no_QUEUE'), 0);
      return query
        select m.msg_id, m.message, m.vt
        from (
          select t.*
          from tidegate.turn_QUEUE as t
          where (t.tag, t.no) >= (v_tag, v_no) and t.idle_at is null
          order by t.tag, t.no
          limit p_batch
        ) as t
        cross join lateral (
          select q.msg_id, q.message, q.vt, row_number() over (order by q.fair_key, q.msg_id) - 1 as place
          from pgmq.q_QUEUE as q
          where (q.fair_key, q.msg_id) >= (t.key, t.head) and q.fair_key <= t.key and coalesce(q.vt <= p_now, false)
          order by q.fair_key, q.msg_id
          limit p_batch
        ) as m
        order by t.tag + m.place * t.cost, t.no
        limit p_batch;
    -- end of each queue
    else perform tidegate_internal.refuse_queue(p_queue);
  end case;
end;
$$;
select tidegate_internal.plan_along_indexes('turns_first');
