-- Who may read and write tables. They are written only through functions, which run as their owner, but for
-- configuration; only the owner calls a function whose file does not allow it to others, and those are in
-- `tidegate_internal`. Applied last: it is about everything that is there.
do $$
declare
  v_role text;
begin
  revoke execute on all routines in schema tidegate, tidegate_internal from public;
  foreach v_role in array array['tidegate_reader', 'tidegate_api', 'tidegate_worker', 'tidegate_admin'] loop
    if to_regrole(v_role) is not null then
      execute format('grant usage on schema tidegate to %I', v_role);
      execute format('grant select on all tables in schema tidegate to %I', v_role);
      -- The hashes are nobody's to read; `key_list` shows the rest.
      execute format('revoke all on tidegate.api_key from %I', v_role);
      -- Who reads a signing secret can sign: the deliverer gets them with what it claims.
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
