-- Who may do what. Group roles without login; grant them to the roles that log in. Tables are written only through
-- functions, which run as their owner; nobody but the owner may write a table.
do $$
declare
  v_role     text;
  v_function record;
begin
  foreach v_role in array array['tidegate_reader', 'tidegate_api', 'tidegate_worker', 'tidegate_admin'] loop
    if to_regrole(v_role) is null then
      begin
        execute format('create role %I nologin', v_role);
      exception
        when duplicate_object or unique_violation then null;
        when insufficient_privilege then
          raise warning 'role % is missing and % may not create it', v_role, current_user;
          continue;
      end;
    end if;
    execute format('grant usage on schema tidegate to %I', v_role);
    execute format('grant select on all tables in schema tidegate to %I', v_role);
  end loop;

  revoke execute on all routines in schema tidegate from public;
  for v_function in
    select p.oid::regprocedure as signature, p.proname as name, grants.roles
    from pg_proc as p
    cross join lateral (
      select case
        when p.proname in ('request_outlook', 'request_position', 'request_retry_after', 'eta_seconds', 'is_held',
          'response_backoff_seconds', 'all_messages', 'claim_wait_ms', 'message_request_id', 'queue_counts',
          'held_by')
          then array['tidegate_reader', 'tidegate_api', 'tidegate_worker', 'tidegate_admin']
        when p.proname in ('submit', 'submit_batch', 'cancel') then array['tidegate_api', 'tidegate_admin']
        when p.proname in ('respond') then array['tidegate_api', 'tidegate_worker', 'tidegate_admin']
        when p.proname in ('claim_readiness', 'claim_tx', 'reserve_send', 'extend', 'release', 'worker_seen')
          or p.proname like 'settle\_%'
          then array['tidegate_worker', 'tidegate_admin']
        when p.proname like 'expire\_%' or p.proname in ('sweep_inbox', 'fold_counts', 'make_partitions', 'rescan_queue',
          'forget_workers', 'wake', 'maintain', 'duty_begins', 'duty_ends')
          then array['tidegate_api', 'tidegate_worker', 'tidegate_admin']
        when p.proname in ('recover', 'remove_strays', 'time_out', 'fail_tx', 'fail_internal', 'initialise', 'config_set',
          'pause')
          then array['tidegate_admin']
      end as roles
    ) as grants
    where p.pronamespace = 'tidegate'::regnamespace and grants.roles is not null
  loop
    foreach v_role in array v_function.roles loop
      if to_regrole(v_role) is not null then
        execute format('grant execute on routine %s to %I', v_function.signature, v_role);
      end if;
    end loop;
  end loop;
  if to_regrole('tidegate_admin') is not null then
    grant insert, update, delete on tidegate.queue, tidegate.kind, tidegate.policy, tidegate.setting,
      tidegate.response_backoff, tidegate.gate to tidegate_admin;
  end if;
end;
$$;
