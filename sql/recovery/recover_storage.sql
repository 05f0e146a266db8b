-- recover_storage: Makes the pgmq tables, counters and function branches of queues that lack them, and lets queues
-- whose sequence was set back draw numbers above those of their messages again; returns the names of these queues.
--
-- The offset of each queue's gate is counted anew: one that was restored may be younger than the messages.
--
-- A queue that draws numbers that are taken refuses every new message; what is under a lease keeps its number, too.
-- `recover` makes the messages of a dropped table again from the rows. `dry_run` only names the queues; `run` is the
-- record that counts them.
create or replace function tidegate.recover_storage(dry_run boolean default false, run bigint default null)
  returns setof text language plpgsql security definer as $$
declare
  v_queue    tidegate.queue;
  v_sequence regclass;
  v_greatest bigint;
begin
  for v_queue in select * from tidegate_internal.missing_storage() loop
    return next v_queue.name;
    continue when dry_run;
    -- Of two concurrent calls the second finds it made.
    perform pg_advisory_xact_lock(tidegate.queue_lock_key(v_queue.name, 'storage'));
    if exists (select from tidegate_internal.missing_storage() as q where q.name = v_queue.name) then
      perform tidegate_internal.make_storage(v_queue.name, v_queue.fair_by is not null);
      perform tidegate_internal.build_queue_functions();
      perform tidegate_internal.record_recovery(run, '{"storages": 1}');
    end if;
  end loop;

  for v_queue in select * from tidegate.queue as q order by q.name loop
    if not dry_run then
      perform tidegate_internal.recover_turns(v_queue.name) where v_queue.fair_by is not null;
      perform tidegate_internal.refresh_offset(v_queue.name, true, null, true);
      -- A message edited by hand may be below the watermark of its kind.
      perform nextval(tidegate_internal.queue_counter(v_queue.name, 'epoch'));
    end if;
    v_sequence := to_regclass('pgmq.' || quote_ident('q_' || v_queue.name || '_msg_id_seq'));
    continue when v_sequence is null;
    execute format('select max(msg_id) from %s', tidegate_internal.queue_table(v_queue.name)) into v_greatest;
    v_greatest := greatest(v_greatest,
      (select max(l.msg_id) from tidegate.leased_request as l where l.queue = v_queue.name));
    continue when v_greatest <= coalesce(pg_sequence_last_value(v_sequence), 0) or v_greatest is null;
    return next v_queue.name;
    continue when dry_run;
    -- Of two concurrent calls the second must not set it back to the value it has read.
    perform pg_advisory_xact_lock(tidegate.queue_lock_key(v_queue.name, 'storage'));
    if v_greatest > coalesce(pg_sequence_last_value(v_sequence), 0) then
      perform setval(v_sequence, v_greatest);
      perform tidegate_internal.record_recovery(run, '{"storages": 1}');
    end if;
  end loop;
end;
$$;
select tidegate_internal.allow('recover_storage', '{admin}');
