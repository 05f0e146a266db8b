-- Grants on tables. All but configuration are written only through functions, which run as their owner; functions whose
-- files allow them to no role are in `tidegate_internal`, for the owner alone. Applied last, because it covers all
-- objects.
do $$
declare
  v_role text;
begin
  revoke execute on all routines in schema tidegate, tidegate_internal from public;
  foreach v_role in array array[
    'tidegate_reader', 'tidegate_api', 'tidegate_node', 'tidegate_worker', 'tidegate_admin'
  ] loop
    if to_regrole(v_role) is not null then
      execute format('grant usage on schema tidegate to %I', v_role);
      execute format('revoke all on all tables in schema tidegate from %I', v_role);
      execute format('grant select on all tables in schema tidegate to %I', v_role);
      -- No role may read the hashes; `key_list` shows the other columns of keys.
      execute format('revoke select on tidegate.api_key, tidegate.page_session from %I', v_role);
      -- A reader of a signing secret could sign: `webhook_claim` gives them to the deliverer.
      execute format('revoke select on tidegate.webhook_secret from %I', v_role);
      execute format('grant select (id, host, created_at, expires_at) on tidegate.webhook_secret to %I', v_role);
    end if;
  end loop;
  if to_regrole('tidegate_admin') is not null then
    grant insert, update, delete on tidegate.queue, tidegate.fair_key, tidegate.kind, tidegate.policy, tidegate.setting,
      tidegate.response_backoff, tidegate.gate, tidegate.webhook_host, tidegate.webhook_policy to tidegate_admin;
  end if;
end;
$$;
