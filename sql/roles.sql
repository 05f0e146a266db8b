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
    -- The hashes are nobody's to read; `key_list` shows the rest.
    execute format('revoke all on tidegate.api_key from %I', v_role);
  end loop;

  revoke execute on all routines in schema tidegate from public;
  for v_function in
    select p.oid::regprocedure as signature, p.proname as name, grants.roles
    from pg_proc as p
    cross join lateral (
      select case
        when p.proname in ('request_outlook', 'request_position', 'request_retry_after', 'eta_seconds', 'nominal_eta',
          'response_backoff_seconds', 'spread_seconds', 'cheapest_poll', 'quantile', 'is_held', 'all_messages',
          'claim_wait_ms', 'message_request_id', 'queue_counts', 'held_by', 'gate_overview', 'list_requests', 'config_get',
          'default_policy',
          'config_history', 'config_name', 'config_value', 'interval_seconds', 'w_retry_ms', 'error_class', 'is_retried',
           'calls_since', 'breaker_bars', 'adaptive_interval_ms', 'explain')
          then array['tidegate_reader', 'tidegate_api', 'tidegate_worker', 'tidegate_admin']
        when p.proname in ('contract_check', 'audit_replay', 'invariants', 'check_invariants', 'invariant_slice')
          then array['tidegate_reader', 'tidegate_admin']
        when p.proname in ('watch', 'announce', 'moved_since')
          then array['tidegate_api', 'tidegate_worker', 'tidegate_admin']
        when p.proname in ('submit', 'submit_batch', 'submit_batch_once', 'submit_group', 'cancel', 'key_changes', 'gate_copy',
          'count_submissions')
          then array['tidegate_api', 'tidegate_admin']
        when p.proname in ('submit_with_callback', 'set_callback', 'webhook_claim', 'webhook_settle')
          then array['tidegate_api', 'tidegate_admin']
        when p.proname in ('set_kind_callback', 'webhook_host_add', 'webhook_host_remove', 'webhook_secret_rotate',
          'webhook_redeliver', 'webhook_redeliver_failed')
          then array['tidegate_admin']
        when p.proname in ('respond') then array['tidegate_api', 'tidegate_worker', 'tidegate_admin']
        when p.proname in ('claim_readiness', 'claim_tx', 'reserve_send', 'extend', 'still_held', 'release', 'worker_seen',
          'read_timeouts', 'fold_timeouts')
          or p.proname like 'settle\_%'
          then array['tidegate_worker', 'tidegate_admin']
        when p.proname like 'expire\_%' or p.proname in ('sweep_inbox', 'fold_counts', 'observe',
          'count_polls', 'make_partitions', 'drop_partitions', 'rescan_queue',
          'survey_queue', 'forget_workers', 'wake', 'look_at_gates', 'count_members', 'look_at_breakers', 'fold_calls',
          'adjust_policies',
          'maintain', 'duty_begins', 'duty_ends')
          then array['tidegate_api', 'tidegate_worker', 'tidegate_admin']
        when p.proname in ('recover', 'recover_storage', 'recover_deadlines', 'recover_responses', 'recover_counts',
          'recover_gates', 'redrive', 'recovery_begins', 'recovery_ends', 'remove_strays', 'time_out', 'fail_tx', 'fail_internal',
          'initialise', 'config_set', 'config_set_many', 'gate_force', 'cap_set', 'cap_remove', 'pause', 'key_create',
          'key_revoke')
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
  -- Who reads a signing secret can sign: the deliverer gets them with what it claims.
  foreach v_role in array array['tidegate_reader', 'tidegate_api', 'tidegate_worker', 'tidegate_admin'] loop
    if to_regrole(v_role) is not null then
      execute format('revoke select on tidegate.webhook_secret from %I', v_role);
      execute format('grant select (id, host, created_at, expires_at) on tidegate.webhook_secret to %I', v_role);
    end if;
  end loop;
  if to_regrole('tidegate_admin') is not null then
    grant insert, update, delete on tidegate.webhook_host, tidegate.webhook_policy to tidegate_admin;
    grant insert, update, delete on tidegate.queue, tidegate.kind, tidegate.policy, tidegate.setting,
      tidegate.response_backoff, tidegate.gate to tidegate_admin;
  end if;
end;
$$;
