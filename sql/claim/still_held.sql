-- still_held: which of the given leases are still held, for a request that still wants its call
--
-- For whoever runs calls that take long. Drop the call of a missing lease: it has run out or was taken over, or its
-- request was cancelled or has ended. Reads only and waits for nobody, so it promises nothing: the settle decides.
-- Raises TG007 when the leases name more than one queue.
create or replace function tidegate.still_held(leases tidegate.lease[])
  returns setof tidegate.lease
  language plpgsql
  stable
  security definer
  -- A plan that is kept may have been made for empty tables: joined as written, along indexes, it serves full ones, too.
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_mergejoin = off
  set join_collapse_limit = 1
  set search_path = pg_catalog, pg_temp
  set jit = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_queue  text;
  v_queues integer;
begin
  select min(l.queue), count(distinct l.queue) into v_queue, v_queues from unnest(leases) as l;
  if v_queues = 0 then
    return;
  end if;
  if v_queues > 1 then
    raise exception using
      errcode = 'TG007',
      message = 'the leases of one call must all name the same queue',
      hint = 'ask about the leases of each queue in a call of its own';
  end if;
  case v_queue
    -- each queue
    when 'QUEUE' then
      return query
        select l.queue, l.msg_id, l.nonce
        from (select distinct l.queue, l.msg_id, l.nonce from unnest(leases) as l) as l
        cross join lateral (
          select tidegate.message_request_id(m.message) as id
          from pgmq.q_QUEUE as m
          where m.msg_id = l.msg_id and m.headers ->> 'nonce' = l.nonce::text
            and tidegate.is_held(m.headers, m.vt, tidegate.clock())
          offset 0
        ) as m
        cross join lateral (
          select r.req_status, r.queue, r.msg_id from tidegate.request as r where r.id = m.id offset 0
        ) as r
        where r.req_status in ('queued', 'tx_in_flight') and r.queue = l.queue and r.msg_id = l.msg_id;
    -- end of each queue
    else perform tidegate_internal.refuse_queue(v_queue);
  end case;
end;
$$;

comment on function tidegate.still_held is
  'Which of the given leases are still held: the calls of the others are to be dropped. Reads only.';
select tidegate_internal.allow('still_held', '{worker,admin}');
