-- put_back: Puts the messages of requests into a queue again, under their old numbers, each visible from its time on.
--
-- For what a claim has taken out. A message that may be taken at once can lie below the queue's low-water mark, which
-- is then lowered. Putting one back holds the mark's lock until this transaction ends, wherever the mark stands,
-- because whoever raises the mark takes the same lock and looks again (`watermark_advance`): else a raise that did not
-- see this message yet would leave it behind. The caller locks no rows afterwards. Messages with a finite time need
-- none of this, they are found through the index on the visibility time. A number that another message has by now (the
-- queue's table was made again) is replaced by a fresh one.
create or replace function tidegate_internal.put_back(p_queue text, p_msg_ids bigint[], p_ids uuid[],
  p_visible timestamptz[])
  returns void
  language plpgsql
  -- A plan that is kept may have been made for empty tables: joined as written, along indexes, it serves full ones,
  -- too.
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_mergejoin = off
  set join_collapse_limit = 1
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_there bigint[];
  v_first bigint;
begin
  case p_queue
    -- each queue
    when 'QUEUE' then
      with back as (
        insert into pgmq.q_QUEUE (msg_id, enqueued_at, vt, message)
        overriding system value
        select b.msg_id, r.submitted_at, b.visible, jsonb_build_object('id', b.id)
        from unnest(p_msg_ids, p_ids, p_visible) as b(msg_id, id, visible)
        join tidegate.request as r on r.id = any(array[b.id])
        on conflict (msg_id) do nothing
        returning msg_id
      )
      select array_agg(back.msg_id) into v_there from back;
    -- end of each queue
    else perform tidegate_internal.refuse_queue(p_queue);
  end case;
  if cardinality(v_there) = cardinality(p_msg_ids) is not true then
    perform tidegate_internal.renumber(p_queue, b.id, b.visible)
    from unnest(p_msg_ids, p_ids, p_visible) as b(msg_id, id, visible)
    where b.msg_id <> all(coalesce(v_there, '{}'));
  end if;

  select min(b.msg_id) into v_first
  from unnest(p_msg_ids, p_visible) as b(msg_id, visible)
  where b.visible = '-infinity';

  if v_first is not null then
    perform pg_advisory_xact_lock(tidegate.queue_lock_key(p_queue, 'watermark'));
    perform tidegate_internal.watermark_lower(p_queue, v_first);
  end if;
end;
$$;
