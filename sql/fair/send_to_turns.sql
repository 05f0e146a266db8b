-- send_to_turns: What `send_messages` does in a fair queue: puts in the messages with their keys, and tells claims of
-- them through the journal.
--
-- `p_keys` are null when the rows of the requests are there already. One row of the journal for each key: urgent, when
-- the key is seen without an active turn; a message that may be taken later is urgent at its time.
create or replace function tidegate_internal.send_to_turns(
  p_queue text, p_ids uuid[], p_msg_ids bigint[], p_visible timestamptz, p_keys bigint[]
)
  returns void language plpgsql as $$
declare
  v_at   constant timestamptz := case when p_visible = '-infinity' then tidegate.clock() else p_visible end;
  v_keys bigint[] := p_keys;
  v_tag  bigint;
begin
  if v_keys is null then
    v_keys := array(
      select tidegate_internal.fair_key(q.fair_by, r.submitter, r.kind)
      from unnest(p_ids) with ordinality as i(id, place)
      join tidegate.request as r on r.id = any(array[i.id])
      cross join (select f.fair_by from tidegate.queue as f where f.name = p_queue) as q
      order by i.place
    );
  end if;
  case p_queue
    -- each fair queue
    when 'QUEUE' then
      v_tag := coalesce(pg_sequence_last_value('tidegate.ready_tag_QUEUE'), 0);
      with sent as (
        insert into pgmq.q_QUEUE (msg_id, vt, message, fair_key)
        overriding system value
        select m.msg_id, p_visible, jsonb_build_object('id', m.id), m.key
        from unnest(p_ids, p_msg_ids, v_keys) as m(id, msg_id, key)
        returning msg_id, fair_key
      )
      insert into tidegate.arrival_QUEUE (at, key, first, n, urgent)
      select
        v_at, s.key, s.first, s.n,
        p_visible > '-infinity' or (
          -- No condition for the index of ready turns, and no `exists`: the turns would be read as a whole.
          select true
          from tidegate.turn_QUEUE as t
          where t.key = s.key and t.tag >= v_tag and coalesce(t.idle_at is null, false)
          limit 1
        ) is not true
      from (
        select e.fair_key as key, min(e.msg_id) as first, count(*)::integer as n from sent as e group by e.fair_key
      ) as s;
    -- end of each queue
    else perform tidegate_internal.refuse_queue(p_queue);
  end case;
end;
$$;
select tidegate_internal.plan_along_indexes('send_to_turns');
