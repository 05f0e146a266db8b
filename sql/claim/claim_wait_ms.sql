-- claim_wait_ms: For how many milliseconds nothing of a queue will be claimable, 60000 at most; 0: something is now.
--
-- Ask again after that time. A submission, a resume or a higher limit may end the wait early. `kinds` as for a claim
-- (null: all): at most 200 while requests of other or paused kinds wait, because a submission behind them does not
-- notify.
create or replace function tidegate.claim_wait_ms(queue text, kinds text[] default null)
  returns integer language plpgsql security definer as $$
declare
  v_queue   tidegate.queue := tidegate_internal.require_queue(claim_wait_ms.queue);
  v_longest integer := 60000;
  v_now     timestamptz := tidegate.clock();
  v_mark    bigint;
  v_due     timestamptz;
  v_next    timestamptz;
  v_free    timestamptz;
  -- Null where they are all of the queue's kinds: then no request is read for its kind.
  v_kinds   text[] := case
    when v_queue.paused_kinds <> '{}'
      then tidegate_internal.unpaused_kinds(v_queue.kinds, v_queue.paused_kinds, claim_wait_ms.kinds)
    when not v_queue.kinds <@ claim_wait_ms.kinds then claim_wait_ms.kinds
  end;
begin
  if v_queue.paused or v_queue.per_seconds = 0 or v_queue.max_concurrency = 0
    or v_kinds = '{}' or exists (select from tidegate.quarantine_state)
  then
    return v_longest;
  end if;

  case claim_wait_ms.queue
    -- each fifo queue
    when 'QUEUE' then
      v_mark := greatest(
        coalesce(pg_sequence_last_value('tidegate.watermark_QUEUE'), 0),
        case when v_kinds is not null then tidegate_internal.kinds_watermark(claim_wait_ms.queue, v_kinds) end
      );
      v_due := to_timestamp(coalesce(pg_sequence_last_value('tidegate.due_watermark_QUEUE'), 0) / 1000000.0);
      v_next := least(
        (
          select m.vt
          from pgmq.q_QUEUE as m
          where m.msg_id >= v_mark and m.vt <= v_now
            and (v_kinds is null or tidegate_internal.is_of_kinds(m.message, v_kinds))
          order by m.msg_id
          limit 1
        ),
        (
          select m.vt
          from pgmq.q_QUEUE as m
          where m.vt > '-infinity' and m.vt > v_due
            and (v_kinds is null or tidegate_internal.is_of_kinds(m.message, v_kinds))
          order by m.vt
          limit 1
        )
      );
    -- end of each queue
    else v_next := tidegate_internal.turns_next(claim_wait_ms.queue, v_now);
  end case;
  v_free := (
    select c.until
    from tidegate.claim as c
    where c.queue = claim_wait_ms.queue and c.until > tidegate_internal.lease_watermark(claim_wait_ms.queue)
    order by c.until
    limit 1
  );
  v_next := least(v_next, v_free);
  if v_kinds is not null and (v_next > v_now) is not false
    and tidegate_internal.queue_has_waiting(claim_wait_ms.queue) then
    v_longest := 200;
  end if;
  if v_next is null then
    return v_longest;
  end if;

  -- The longest of the waits for a message, the breakers, the rate and a free slot.
  return least(v_longest, ceil(greatest(
    0,
    case when v_next > v_now then extract(epoch from v_next - v_now) * 1000 end,
    (
      -- For how long the breakers keep every kind of the queue from being called.
      select min(case
        when b.state = 'open' then greatest(0, extract(epoch from b.open_until - v_now) * 1000)
        when b.state = 'half_open' and b.probes >= p.breaker_probes and b.probe_until > v_now then 250
        else 0
      end)
      from unnest(v_queue.kinds) as k(name)
      join tidegate.policy as p on p.kind = k.name and p.stage = v_queue.stage
      left join tidegate.breaker as b on b.kind = k.name and b.stage = v_queue.stage
      where exists (select from tidegate.breaker as o where o.stage = v_queue.stage and o.state <> 'closed')
    ),
    (
      select s.wait_ms
      from tidegate_internal.pacing_slots(
        pg_sequence_last_value(tidegate_internal.queue_counter(v_queue.name, 'pacing')), v_queue.per_seconds,
        v_queue.burst, v_now
      ) as s
    ),
    case when v_queue.max_concurrency is not null
      and tidegate_internal.held_count(v_queue.name, v_now) >= v_queue.max_concurrency
      then extract(epoch from v_free - v_now) * 1000 end
  )));
end;
$$;
select tidegate_internal.allow('claim_wait_ms', '{reader,api,worker,admin}');
select tidegate_internal.plan_along_indexes('claim_wait_ms', 'sort');
