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

-- function key_of_fair_key: Trigger on fair_key: the key is that of the name (TG002, TG005, TG007).
create or replace function tidegate_internal.key_of_fair_key()
  returns trigger language plpgsql security definer as $$
begin
  new.key := tidegate_internal.key_of_name(new.queue, new.name);
  return new;
end;
$$;
create or replace trigger key_of_fair_key
  before insert or update on tidegate.fair_key
  for each row execute function tidegate_internal.key_of_fair_key();

-- function turn_of_fair_key: Trigger on fair_key: the turn of a key follows its settings, however they change.
create or replace function tidegate_internal.turn_of_fair_key()
  returns trigger language plpgsql security definer as $$
declare
  v_row tidegate.fair_key;
begin
  for v_row in select old.* where tg_op <> 'INSERT' union select new.* where tg_op <> 'DELETE' loop
    -- A queue that is removed takes its keys and its turns with it.
    if exists (select from tidegate.queue as q where q.name = v_row.queue and q.fair_by is not null) then
      perform pg_advisory_xact_lock(tidegate.queue_lock_key(v_row.queue, 'turns'));
      perform tidegate_internal.set_turn(v_row.queue, v_row.key);
      perform pg_notify('tidegate_queue', v_row.queue);
    end if;
  end loop;
  return null;
end;
$$;
create or replace trigger turn_of_fair_key
  after insert or update or delete on tidegate.fair_key
  for each row execute function tidegate_internal.turn_of_fair_key();
