-- fold_turns: Maintenance: one batch of a fair queue's journal, and the turns that are to be forgotten; returns whether
-- there is more to do.
--
-- Urgent rows come first, as in a claim: else a quiet row of a key would make it active before keys that came earlier.
-- An idle turn is forgotten at or below virtual time; what it still counts goes back into the
-- journal. While no turn is ready, virtual time is stored first. Alone under the lock `turns`, for which claims wait.
create or replace function tidegate.fold_turns(queue text)
  returns boolean language plpgsql security definer as $$
declare
  v_urgent integer;
  v_quiet  integer;
  v_time   bigint;
  v_gone   bigint;
begin
  perform tidegate_internal.require_queue(fold_turns.queue);
  perform pg_advisory_xact_lock(tidegate.queue_lock_key(fold_turns.queue, 'turns'));
  v_urgent := tidegate_internal.fold_arrivals(fold_turns.queue, true, tidegate.clock(), true);
  v_quiet := tidegate_internal.fold_arrivals(fold_turns.queue, false, tidegate.clock(), true);
  v_time := tidegate_internal.virtual_time(fold_turns.queue);
  case fold_turns.queue
    -- each fair queue
    when 'QUEUE' then
      if v_time > coalesce(pg_sequence_last_value('tidegate.ready_tag_QUEUE'), 0)
        and not exists (select from tidegate.turn_QUEUE as t where t.tag >= 0 and t.idle_at is null)
      then
        perform setval('tidegate.ready_no_QUEUE', 0);
        perform setval('tidegate.ready_tag_QUEUE', v_time);
      end if;
      with gone as (
        delete from tidegate.turn_QUEUE as t
        where t.ctid = any(array(
          select f.ctid
          from tidegate.turn_QUEUE as f
          where f.idle_at is not null and f.tag <= v_time
          order by f.tag
          limit 2000
        ))
        returning t.key, t.waiting
      ), kept as (
        insert into tidegate.arrival_QUEUE (at, key, n, urgent)
        select tidegate.clock(), g.key, g.waiting, false from gone as g where g.waiting <> 0
      )
      select count(*) into v_gone from gone;
    -- end of each queue
    else perform tidegate_internal.refuse_queue(fold_turns.queue);
  end case;
  return 2000 in (v_urgent, v_quiet, v_gone);
end;
$$;
select tidegate_internal.allow('fold_turns', '{api,worker,admin}');
select tidegate_internal.plan_along_indexes('fold_turns');
