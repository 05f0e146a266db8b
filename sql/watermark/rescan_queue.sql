-- rescan_queue: Maintenance: finds messages and leases that a queue's watermarks or a step of the clock hide; returns
-- how many.
--
-- A message is hidden if it committed long after its number was drawn (below the watermark) or after its visibility
-- time (before the due watermark); a lease, if it ends later than its length allows, because the clock stepped back.
-- Runs as a maintenance duty, one at a time. Each step reads the clock after its snapshot: by an earlier reading, a
-- lease that was taken in between would seem to end too late.
--
-- It also raises the due watermark to the first message that is due: without claims nothing else does, and each count
-- from that watermark on would walk over every message that was settled since.
create or replace function tidegate.rescan_queue(queue text)
  returns bigint language plpgsql security definer as $$
declare
  v_mark    regclass := tidegate_internal.queue_counter(rescan_queue.queue, 'watermark');
  v_due     regclass := tidegate_internal.queue_counter(rescan_queue.queue, 'due_watermark');
  v_now     timestamptz;
  v_now_us  bigint;
  v_first   bigint;
  v_visible timestamptz;
  v_due_us  bigint;
  v_next_us bigint;
  v_found   bigint;
begin
  perform tidegate_internal.require_queue(rescan_queue.queue);
  -- Its storage may have been dropped.
  if to_regclass(tidegate_internal.queue_table(rescan_queue.queue)) is null then
    return 0;
  end if;
  -- Such a lease has run out: the next claim reaps it.
  update tidegate.claim as c
  set until = tidegate.clock()
  where (c.token, c.part) in (
    select h.token, h.part
    from tidegate.claim as h
    where h.queue = rescan_queue.queue and h.until > tidegate.clock()
      and not tidegate.is_held(h.until, h.lease_ms, tidegate.clock())
    for update skip locked
  );
  get diagnostics v_found = row_count;

  perform pg_advisory_xact_lock(tidegate.queue_lock_key(rescan_queue.queue, 'watermark'));
  v_now := tidegate.clock();
  v_now_us := (extract(epoch from v_now) * 1000000)::bigint;

  execute format(
    $sql$ select msg_id from %s where msg_id < $1 and vt = '-infinity' order by msg_id limit 1 $sql$,
    tidegate_internal.queue_table(rescan_queue.queue)
  ) into v_first using coalesce(pg_sequence_last_value(v_mark), 0);
  if v_first is not null then
    perform tidegate_internal.watermark_lower(rescan_queue.queue, v_first, p_found => true);
    v_found := v_found + 1;
  end if;
  -- A search below the kinds' marks would read each message there: a claim does it once an hour, and after `recover`.
  delete from tidegate.kind_watermark as m
  where m.queue = rescan_queue.queue and m.noted_at < v_now - interval '1 hour';

  -- A step of the clock may have made a lease that ran out before this mark.
  v_visible := (
    select c.until
    from tidegate.claim as c
    where c.queue = rescan_queue.queue and c.until <= tidegate_internal.lease_watermark(rescan_queue.queue)
    order by c.until
    limit 1
  );
  v_due_us := least((extract(epoch from v_visible) * 1000000)::bigint - 1, v_now_us);
  if v_due_us < pg_sequence_last_value(tidegate_internal.queue_counter(rescan_queue.queue, 'lease_watermark')) then
    perform setval(tidegate_internal.queue_counter(rescan_queue.queue, 'lease_watermark'), v_due_us);
    v_found := v_found + (v_visible is not null)::integer;
  end if;

  -- In a fair queue this mark is that of the journal (see `fold_turns`).
  if (select q.fair_by is not null from tidegate.queue as q where q.name = rescan_queue.queue) then
    return v_found;
  end if;
  execute format(
    $sql$ select vt from %s where vt > '-infinity' and vt <= $1 order by vt limit 1 $sql$,
    tidegate_internal.queue_table(rescan_queue.queue)
  ) into v_visible using v_now;
  v_due_us := coalesce(pg_sequence_last_value(v_due), 0);
  -- A little behind the present, as in `claim_finish`.
  v_next_us := least(v_now_us - 100000, (extract(epoch from v_visible) * 1000000)::bigint - 1);
  if v_visible <= to_timestamp(v_due_us / 1000000.0) then
    perform setval(v_due, greatest(v_next_us, 1));
    v_found := v_found + 1;
  elsif v_next_us > v_due_us or v_due_us > v_now_us then
    perform setval(v_due, v_next_us);
  end if;

  return v_found;
end;
$$;
select tidegate_internal.allow('rescan_queue', '{api,worker,admin}');
