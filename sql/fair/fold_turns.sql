-- fold_turns: Maintenance: one batch of a fair queue's journal, what its marks hide (see `rescan_turns`), and the turns
-- that are to be forgotten; returns whether there is more to do.
--
-- Urgent rows come first, as in a claim: else a quiet row of a key would make it active before keys that came earlier.
-- An idle turn is forgotten at or below virtual time; what it still counts goes back into the journal. While no turn is
-- ready, virtual time is stored first. Claims wait for the lock `turns` meanwhile; for a claim that stays open this
-- function does not: the next call continues.
--
-- Raises TG007 for a fifo queue.
create or replace function tidegate.fold_turns(queue text)
  returns boolean language plpgsql security definer as $$
declare
  v_timeout constant text := current_setting('lock_timeout');
  -- After a claim in this transaction, which may roll back, marks stay.
  v_marks   constant boolean := (
    current_setting('tidegate.turned_' || fold_turns.queue, true) = pg_current_xact_id_if_assigned()::text
  ) is not true;
  v_urgent  integer;
  v_quiet   integer;
  v_time    bigint;
  v_tag     bigint;
  v_no      bigint;
  v_from    bigint;
  v_gone    record;
begin
  perform tidegate_internal.require_read_committed('fold_turns');
  perform tidegate_internal.require_fair_queue(fold_turns.queue);
  -- Its storage may have been dropped.
  if not exists (select from tidegate_internal.fair_queues() as q where q.name = fold_turns.queue) then
    return false;
  end if;
  begin
    perform set_config('lock_timeout', '100ms', true);
    perform tidegate_internal.rescan_turns(fold_turns.queue);
    perform pg_advisory_xact_lock(tidegate.queue_lock_key(fold_turns.queue, 'turns'));
    perform set_config('lock_timeout', v_timeout, true);
  exception when lock_not_available then
    return false;
  end;
  v_urgent := tidegate_internal.fold_arrivals(fold_turns.queue, true, tidegate.clock(), v_marks);
  v_quiet := tidegate_internal.fold_arrivals(fold_turns.queue, false, tidegate.clock(), v_marks);
  v_time := tidegate_internal.virtual_time(fold_turns.queue);
  case fold_turns.queue
    -- each fair queue
    when 'QUEUE' then
      v_tag := coalesce(pg_sequence_last_value('tidegate.ready_tag_QUEUE'), 0);
      v_no := coalesce(pg_sequence_last_value('tidegate.ready_no_QUEUE'), 0);
      v_from := coalesce(pg_sequence_last_value('tidegate.forgotten_QUEUE'), 0);
      if v_marks and v_time > v_tag and not exists (
        select from tidegate.turn_QUEUE as t where (t.tag, t.no) >= (v_tag, v_no) and t.idle_at is null
      ) then
        perform setval('tidegate.ready_no_QUEUE', 0);
        perform setval('tidegate.ready_tag_QUEUE', v_time);
      end if;
      with gone as (
        delete from tidegate.turn_QUEUE as t
        where t.ctid = any(array(
          select f.ctid
          from tidegate.turn_QUEUE as f
          -- A paused turn lies beyond.
          where f.idle_at is not null and f.tag >= v_from and f.tag <= case when v_marks then v_time else v_tag end
          order by f.tag
          limit 2000
        ))
        returning t.key, t.tag, t.waiting
      ), kept as (
        insert into tidegate.arrival_QUEUE (at, key, n, urgent)
        select tidegate.clock(), g.key, g.waiting, false from gone as g where g.waiting <> 0
      )
      select count(*)::integer as turns, min(g.tag) as first into v_gone from gone as g;
      -- No further than to what this transaction has deleted, which may roll back.
      if v_marks and coalesce(v_gone.first, v_time) > v_from then
        perform setval('tidegate.forgotten_QUEUE', coalesce(v_gone.first, v_time));
      end if;
    -- end of each queue
    else perform tidegate_internal.refuse_queue(fold_turns.queue);
  end case;
  return 2000 in (v_urgent, v_quiet, v_gone.turns);
end;
$$;
select tidegate_internal.allow('fold_turns', '{api,worker,admin}');
select tidegate_internal.plan_along_indexes('fold_turns');
