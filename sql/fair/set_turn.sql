-- set_turn: Gives the turn of a key the weight that `fair_key` has for it, and pauses or resumes it. The caller holds
-- the lock `turns`.
--
-- A pause moves the tag beyond all virtual time. A key that is resumed goes on at virtual time, or at its own tag if
-- that is later. Virtual time is stored first: it may have been the tag of this key, and must not fall.
create or replace function tidegate_internal.set_turn(p_queue text, p_key bigint)
  returns void language plpgsql as $$
declare
  v_far    constant bigint := tidegate_internal.paused_tags();
  v_weight constant integer := coalesce(
    (select s.weight from tidegate.fair_key as s where s.queue = p_queue and s.key = p_key), 1
  );
  v_paused constant boolean := exists (
    select from tidegate.fair_key as s where s.queue = p_queue and s.key = p_key and s.paused
  );
  v_now    constant timestamptz := tidegate.clock();
  v_time   constant bigint := tidegate_internal.virtual_time(p_queue);
  v_marks  constant boolean := current_setting('tidegate.turned_' || p_queue, true)
    is distinct from pg_current_xact_id()::text;
begin
  case p_queue
    -- each fair queue
    when 'QUEUE' then
      if v_marks and v_time > coalesce(pg_sequence_last_value('tidegate.ready_tag_QUEUE'), 0) then
        perform setval('tidegate.ready_no_QUEUE', 0);
        perform setval('tidegate.ready_tag_QUEUE', v_time);
      end if;
      update tidegate.turn_QUEUE as t
      set cost = 720720 / v_weight, tag = n.tag, no = n.no, idle_at = n.idle_at
      from (
        select
          u.ctid as tid,
          case
            when (u.tag >= v_far) = v_paused then u.tag
            when v_paused then u.tag + v_far
            else greatest(u.tag - v_far, v_time)
          end as tag,
          case when u.tag >= v_far and not v_paused then nextval('tidegate.last_turn_QUEUE') else u.no end as no,
          case
            when (u.tag >= v_far) = v_paused then u.idle_at
            when v_paused or not exists (
              select
              from pgmq.q_QUEUE as q
              where (q.fair_key, q.msg_id) >= (u.key, u.head) and q.fair_key <= u.key and coalesce(q.vt <= v_now, false)
            ) then v_now
          end as idle_at
        from tidegate.turn_QUEUE as u
        where u.key = p_key and u.tag >= v_time
        order by u.tag desc
        limit 1
      ) as n
      where t.ctid = n.tid;
    -- end of each queue
    else perform tidegate_internal.refuse_queue(p_queue);
  end case;
  -- A claim in this transaction raises no marks: what was changed here may be rolled back.
  perform set_config('tidegate.turned_' || p_queue, pg_current_xact_id()::text, true);
end;
$$;
select tidegate_internal.plan_along_indexes('set_turn', 'sort');
