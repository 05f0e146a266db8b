-- set_turn: Gives the turn of a key the weight that `fair_key` has for it, and pauses or resumes it. The caller holds
-- the lock `turns`.
--
-- A pause moves the tag beyond all virtual time. A key that is resumed goes on at virtual time, or at its own tag if
-- that is later.
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
begin
  -- A claim in this transaction raises no marks: what is changed here may be rolled back.
  perform set_config('tidegate.turned_' || p_queue, pg_current_xact_id()::text, true);
  case p_queue
    -- each fair queue
    when 'QUEUE' then
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
      ) as n
      where t.ctid = n.tid;
    -- end of each queue
    else perform tidegate_internal.refuse_queue(p_queue);
  end case;
end;
$$;
select tidegate_internal.plan_along_indexes('set_turn');
