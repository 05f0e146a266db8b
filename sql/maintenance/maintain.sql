-- maintain: Runs the maintenance duties that are due; call it on its own, outside a transaction.
--
-- Every `serve` and worker process calls it each second; a duty runs in one of them at a time. `call
-- tidegate.maintain()` from psql does the same for a fleet of none.
create or replace procedure tidegate.maintain()
  language plpgsql as $$
declare
  v_time  constant interval := '500 ms';
  v_whole constant interval := '5 seconds';
  v_pause constant float8 := 0.003;
  v_start constant timestamptz := tidegate.clock();
  v_due   text[];
  v_duty  text[];
  v_began timestamptz;
  v_more  boolean;
  v_left  boolean;
  v_error text;
  -- The duties that have ended, and are not recorded yet.
  v_ended text[] := '{}';
  v_ran   timestamptz[] := '{}';
  v_took  interval[] := '{}';
begin
  -- A procedure that commits cannot have a `set` clause, and each commit ends a local setting.
  perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
  -- In rounds while a duty has a backlog, because each second of rest would let it grow.
  loop
    v_left := false;
    -- Mostly none: another process has just run all duties.
    v_due := array(
      select m.duty from tidegate.maintenance as m where tidegate.clock() not between m.ran_at and m.ran_at + m.period
    );

    -- Each duty, and a query that does one batch of it and returns whether there is more to do (null: no). Queues are
    -- visited by name, as all that locks them does; no count is below 0.
    foreach v_duty slice 1 in array array[
      ['expire_by_deadline', 'select more from tidegate.expire_by_deadline()'],
      ['expire_by_readiness', 'select more from tidegate.expire_by_readiness()'],
      ['expire_responses', 'select more from tidegate.expire_responses()'],
      ['sweep_inbox', 'select tidegate.sweep_inbox(1000) = 1000'],
      ['rescan_queues', 'select tidegate.rescan_queue(name) < 0 from tidegate.queue order by name'],
      ['fold_turns',
       'select bool_or(tidegate.fold_turns(q.name))
        from (select name from tidegate.queue where fair_by is not null order by name) as q'],
      ['quota_reconcile', 'select tidegate.quota_reconcile()'],
      ['gates_evaluate', 'select null from tidegate.gates_evaluate()'],
      ['breakers_evaluate', 'select null from tidegate.breakers_evaluate()'],
      ['survey_queues', 'select tidegate.survey_queue(name, 8) < 0 from tidegate.queue order by name'],
      ['take_samples', 'select tidegate.take_samples() = 10000'],
      ['fold_counts', 'select tidegate.fold_counts() = 10000'],
      ['fold_calls', 'select tidegate.fold_calls() = 10000'],
      ['record_minutes', 'select null from tidegate.record_minutes()'],
      ['adjust_policies', 'select null from tidegate.adjust_policies()'],
      ['expire_keys', 'select more from tidegate.expire_keys()'],
      ['expire_webhooks', 'select tidegate.expire_webhooks() = 1000'],
      ['expire_requests', 'select more from tidegate.expire_requests()'],
      ['forget_workers', 'select null from tidegate.forget_workers()'],
      ['make_partitions', 'select null from tidegate.make_partitions()'],
      ['drop_partitions', 'select tidegate.drop_partitions() is not null'],
      ['expire_events', 'select tidegate.expire_events() = 1000']
    ] loop
      continue when v_duty[1] <> all(v_due);
      v_began := tidegate.clock();
      v_more := true;
      -- Bounded, so that no duty delays the others with its backlog: the next round continues. Its lock is taken for
      -- each batch: a session that did a batch beside another one's would find nothing left, and record the duty as
      -- done.
      for v_batch in 1 .. 100 loop
        exit when v_more is not true or tidegate.clock() not between v_began and v_began + v_time;
        if not tidegate.duty_begins(v_duty[1]) then
          v_more := false;
          exit;
        end if;
        -- A duty that fails has not run, and the later ones run all the same.
        v_error := null;
        begin
          execute v_duty[2] into v_more;
        exception when others then
          v_error := sqlerrm;
          v_more := false;
          raise warning 'maintenance duty %: %', v_duty[1], v_error;
        end;
        if v_error is not null then
          perform tidegate.duty_fails(v_duty[1], v_error);
        elsif v_more is not true then
          v_ended := v_ended || v_duty[1];
          v_ran := v_ran || v_began;
          v_took := v_took || (tidegate.clock() - v_began);
        end if;
        -- Most duties find nothing to do, and commit nothing. Their records go with the next one that has written: for
        -- each a commit of its own would wait for the disk.
        if v_ended <> '{}' and pg_current_xact_id_if_assigned() is not null then
          perform tidegate.duties_end(v_ended, v_ran, v_took);
          v_ended := '{}';
          v_ran := '{}';
          v_took := '{}';
        end if;
        commit;
        perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
        -- Submits and claims that came meanwhile go first: they need the same disk, and the same processors.
        perform pg_catalog.pg_sleep(v_pause);
      end loop;
      v_left := v_left or v_more is true;
    end loop;
    exit when not v_left or tidegate.clock() not between v_start and v_start + v_whole;
  end loop;
  if v_ended <> '{}' then
    perform tidegate.duties_end(v_ended, v_ran, v_took);
  end if;
end;
$$;
select tidegate_internal.allow('maintain', '{api,worker,admin}');
