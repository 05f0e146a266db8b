-- maintain: Runs the maintenance duties that are due; call it on its own, outside a transaction.
--
-- Every `serve` and worker process calls it each second; a duty runs in one of them at a time. `call
-- tidegate.maintain()` from psql does the same for a fleet of none.
create or replace procedure tidegate.maintain()
  language plpgsql as $$
declare
  v_time  constant interval := '500 ms';
  v_duty  text;
  v_began timestamptz;
  v_more  boolean;
begin
  -- A procedure that commits cannot have a `set` clause, and each commit ends a local setting.
  perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
  -- Most calls find that another process has just run all duties.
  if not exists (
    select from tidegate.maintenance as m where tidegate.clock() not between m.ran_at and m.ran_at + m.period
  ) then
    return;
  end if;

  foreach v_duty in array array[
    'expire_by_deadline', 'expire_by_readiness', 'expire_responses', 'sweep_inbox', 'rescan_queues', 'quota_reconcile',
    'gates_evaluate', 'breakers_evaluate', 'survey_queues', 'take_samples', 'fold_counts', 'fold_calls',
    'adjust_policies', 'expire_keys', 'expire_webhooks', 'expire_requests', 'forget_workers', 'make_partitions',
    'drop_partitions', 'expire_events'
  ] loop
    v_began := tidegate.clock();
    v_more := true;
    -- Bounded, so that no duty delays the others with its backlog: the next call continues.
    for v_batch in 1 .. 100 loop
      exit when not v_more or tidegate.clock() not between v_began and v_began + v_time
        or (v_batch = 1 and not tidegate.duty_begins(v_duty));
      v_more := false;
      -- A duty that fails raises a warning, and the later ones run all the same.
      begin
        case v_duty
          when 'expire_by_deadline' then select e.more into v_more from tidegate.expire_by_deadline() as e;
          when 'expire_by_readiness' then select e.more into v_more from tidegate.expire_by_readiness() as e;
          when 'expire_responses' then select e.more into v_more from tidegate.expire_responses() as e;
          when 'sweep_inbox' then v_more := tidegate.sweep_inbox(1000) = 1000;
          when 'quota_reconcile' then v_more := tidegate.quota_reconcile();
          when 'gates_evaluate' then perform tidegate.gates_evaluate();
          when 'breakers_evaluate' then perform tidegate.breakers_evaluate();
          when 'fold_calls' then v_more := tidegate.fold_calls() = 10000;
          when 'adjust_policies' then perform tidegate.adjust_policies();
          when 'take_samples' then v_more := tidegate.take_samples() = 10000;
          when 'fold_counts' then v_more := tidegate.fold_counts() = 10000;
          when 'expire_keys' then v_more := tidegate.expire_keys() = 1000;
          when 'expire_webhooks' then v_more := tidegate.expire_webhooks() = 1000;
          when 'expire_requests' then select e.more into v_more from tidegate.expire_requests() as e;
          when 'drop_partitions' then v_more := tidegate.drop_partitions() is not null;
          when 'expire_events' then v_more := tidegate.expire_events() = 1000;
          when 'forget_workers' then perform tidegate.forget_workers();
          when 'make_partitions' then perform tidegate.make_partitions();
          when 'rescan_queues' then
            perform tidegate.rescan_queue(o.name) from (select q.name from tidegate.queue as q order by q.name) as o;
          when 'survey_queues' then
            perform tidegate.survey_queue(o.name, 8) from (select q.name from tidegate.queue as q order by q.name) as o;
        end case;
      exception when others then
        raise warning 'maintenance duty %: %', v_duty, sqlerrm;
        v_more := false;
      end;
      if not v_more then
        perform tidegate.duty_ends(v_duty, v_began);
      end if;
      commit;
      perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    end loop;
  end loop;
end;
$$;
select tidegate_internal.allow('maintain', '{api,worker,admin}');
