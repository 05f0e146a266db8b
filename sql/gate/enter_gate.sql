-- enter_gate: takes the lock under which a strict gate lets submissions in, and counts what is behind the gate
--
-- Returns the gate as it is under the lock, its depth and how many wait in its queue; null when it is so far below the
-- high-water mark that nobody has to count. Far below, submissions share the lock: there is room for all that every
-- connection may add before the next one looks, which is why a transaction may add only so many. Near the mark, and for
-- more at once, one submission comes after the other has committed, and finds the exact depth. Which it is stays so for the
-- whole transaction: two that share the lock and want it alone would wait for each other.
-- Raises TG012 for one submission too many in a transaction, 55P03 when somebody keeps the lock for too long.
create or replace function tidegate_internal.enter_gate(
  p_gate      text,
  p_count     integer,
  out gate    tidegate.gate,
  out depth   bigint,
  out waiting bigint
)
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_each     constant integer := 16;
  v_patience constant interval := '5 seconds';
  v_few      constant integer := 4000;
  v_key      constant bigint := tidegate.queue_lock_key(p_gate, 'admission');
  v_held_as  text;
  v_held     text;
  v_room     bigint;
  v_busy     boolean := false;
  v_bound    bigint;
begin
  select * into gate from tidegate.gate as g where g.name = p_gate;
  if gate.queue is not null then
    v_held_as := 'tidegate.admitted_' || gate.queue;
    v_held := nullif(current_setting(v_held_as, true), '');
    -- All that can have added something which is not visible yet.
    v_room := v_each * (
      current_setting('max_connections')::bigint + current_setting('max_worker_processes')::bigint
      + current_setting('max_prepared_transactions')::bigint
    );
  end if;

  if v_held <> 'alone' then
    if v_held::integer + p_count > v_each then
      raise exception using
        errcode = 'TG012',
        message = format(
          'this transaction has submitted %s to queue "%s" while there was much room, and may add %s more, not %s',
          v_held, p_gate, v_each - v_held::integer, p_count
        ),
        hint = 'submit all of them with one tidegate.submit_batch, or in transactions of their own';
    end if;
    perform set_config(v_held_as, (v_held::integer + p_count)::text, true);
    return;
  end if;

  if v_held is null and p_count <= v_each and gate.high_water > v_room then
    begin
      v_busy := not tidegate_internal.try_lock(v_key, true, v_patience);
      select * into gate from tidegate.gate as g where g.name = p_gate;
      select b.bound, b.waiting into v_bound, waiting from tidegate_internal.queue_depth_bound(gate.queue) as b;
      if v_busy or gate.high_water - v_bound < v_room then
        raise exception using errcode = 'TG000';
      end if;
      perform set_config(v_held_as, p_count::text, true);
      return;
    exception
      -- Near the mark after all: the lock goes with what was begun here.
      when sqlstate 'TG000' then null;
    end;
  end if;

  if v_busy or not tidegate_internal.try_lock(v_key, false, v_patience) then
    raise exception using
      errcode = '55P03',
      message = format('gate "%s" is busy: another transaction has submitted, and does not end', p_gate),
      hint = 'submit again; look for transactions that stay open in pg_stat_activity';
  end if;
  if v_held_as is not null then
    perform set_config(v_held_as, 'alone', true);
  end if;
  select * into gate from tidegate.gate as g where g.name = p_gate;
  if gate.queue is null then
    depth := tidegate_internal.gate_count(gate, gate.high_water + 1);
    return;
  end if;
  if gate.high_water > v_few then
    select b.bound, b.waiting into v_bound, waiting from tidegate_internal.queue_depth_bound(gate.queue) as b;
    if v_bound + p_count < gate.high_water then
      return;
    end if;
  end if;
  select c.depth, c.waiting into depth, waiting from tidegate_internal.queue_count(gate.queue, gate.high_water + 1) as c;
  -- No more was counted.
  if depth > gate.high_water then
    depth := tidegate_internal.gate_depth(gate, gate.high_water + 1);
    waiting := null;
  end if;
end;
$$;

comment on function tidegate_internal.enter_gate is 'The lock under which a strict gate lets submissions in, and its depth.';
