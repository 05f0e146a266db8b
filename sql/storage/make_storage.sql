-- make_storage: Makes the storage of a queue as far as it is missing: its pgmq table, with an index, and its counters;
-- with `p_is_fair` its turns, too.
-- A new queue takes over nothing that is there (TG005): a queue of pgmq with this name is an application's.
--
-- The storage parameters suit a table whose rows all die young: vacuum after a few thousand dead rows, however large
-- the table.
create or replace function tidegate_internal.make_storage(
  p_queue text, p_is_fair boolean, p_is_new boolean default false
)
  returns void language plpgsql
  set client_min_messages = warning
  set standard_conforming_strings = on
as $$
declare
  v_table   constant text := tidegate_internal.queue_table(p_queue);
  v_index   constant text := format('pgmq.%I', 'q_' || p_queue || '_vt_idx');
  v_counter text;
begin
  if p_is_new and (to_regclass(v_table) is not null or exists (select from pgmq.meta as m where m.queue_name = p_queue))
  then
    raise exception using errcode = 'TG005',
      message = format('pgmq has a queue "%s" already, which is not Tidegate''s: choose another name', p_queue),
      hint = format('if nothing uses it: select pgmq.drop_queue(%L)', p_queue);
  end if;
  perform pgmq.create(p_queue);
  execute format(
    $sql$
      alter table %s set (
        autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_analyze_scale_factor = 0,
        autovacuum_analyze_threshold = 20000, autovacuum_vacuum_cost_delay = 0
      )
    $sql$, v_table
  );
  -- Only messages that become visible later are found by their time: the others cost one index entry less.
  if not exists (select from pg_index as i where i.indexrelid = to_regclass(v_index) and i.indpred is not null) then
    execute format('drop index if exists %s', v_index);
    execute format('create index %I on %s (vt) where vt > ''-infinity''', 'q_' || p_queue || '_vt_idx', v_table);
  end if;
  -- Visibility times pile up at one value and move all the time: statistics of a moment ago mislead the planner.
  execute format('alter table %s alter column vt set statistics 0', v_table);
  foreach v_counter in array tidegate_internal.queue_counters(p_is_fair) loop
    execute format(
      'create sequence if not exists tidegate.%I minvalue -9223372036854775807 start 1', v_counter || '_' || p_queue
    );
  end loop;
  if p_is_fair then
    perform tidegate_internal.make_turns(p_queue);
  end if;
end;
$$;
