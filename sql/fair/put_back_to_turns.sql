-- put_back_to_turns: Puts the messages of requests into a fair queue again, as `put_back` does, and tells the journal
-- of them, urgent from their times on; returns the numbers that were free.
create or replace function tidegate_internal.put_back_to_turns(
  p_queue text, p_msg_ids bigint[], p_ids uuid[], p_visible timestamptz[]
)
  returns bigint[] language plpgsql as $$
declare
  v_now   constant timestamptz := tidegate.clock();
  v_there bigint[];
begin
  case p_queue
    -- each fair queue
    when 'QUEUE' then
      with back as (
        insert into pgmq.q_QUEUE (msg_id, enqueued_at, vt, message, fair_key)
        overriding system value
        select
          b.msg_id, r.submitted_at, coalesce(b.visible, '-infinity'), jsonb_build_object('id', b.id),
          tidegate_internal.fair_key(q.fair_by, r.submitter, r.kind)
        from unnest(p_msg_ids, p_ids, p_visible) as b(msg_id, id, visible)
        join tidegate.request as r on r.id = any(array[b.id])
        cross join (select f.fair_by from tidegate.queue as f where f.name = p_queue) as q
        on conflict (msg_id) do nothing
        returning msg_id, vt, fair_key
      ), told as (
        insert into tidegate.arrival_QUEUE (at, key, first, n, urgent)
        select b.at, b.fair_key, min(b.msg_id), count(*), true
        from (select back.fair_key, back.msg_id, greatest(back.vt, v_now) as at from back) as b
        group by b.at, b.fair_key
      )
      select array_agg(back.msg_id) into v_there from back;
    -- end of each queue
    else perform tidegate_internal.refuse_queue(p_queue);
  end case;
  return v_there;
end;
$$;
select tidegate_internal.plan_along_indexes('put_back_to_turns');
