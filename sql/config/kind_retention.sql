-- kind_retention: A kind keeps its finished requests for as long as their idempotency keys stand for them.
--
-- Or a duplicate inside the window would find its request gone. At the end of the transaction, because a kind and its
-- policy may change together; one after the other, because two that change at once see only their own half.
create or replace function tidegate_internal.kind_retention()
  returns trigger language plpgsql security definer as $$
declare
  v_kind  text := case tg_table_name when 'kind' then to_jsonb(new) ->> 'name' else to_jsonb(new) ->> 'kind' end;
  v_found record;
begin
  perform pg_advisory_xact_lock(hashtextextended('tidegate.configuration', 0));
  select k.retention, p.dedup_window into v_found
  from tidegate.kind as k
  join tidegate.policy as p on p.kind = k.name and p.stage = 'tx'
  where k.name = v_kind and k.retention < p.dedup_window;
  if found then
    raise exception using
      errcode = 'check_violation',
      constraint = 'kind_retention_is_at_least_the_dedup_window',
      message = format(
        'kind "%s" would delete requests that their idempotency keys stand for: retention %s < dedup_window %s',
        v_kind, v_found.retention, v_found.dedup_window
      ),
      hint = format('nothing has changed; %s.retention and %s.tx.dedup_window may change together, in one transaction '
      'or one '
        '`tidegate config set`', v_kind, v_kind);
  end if;
  return null;
end;
$$;

select
  tidegate_internal.constraint_trigger(
    'kind_retention', 'kind', 'insert or update of retention',
    'when (new.retention is not null) execute function tidegate_internal.kind_retention()'
  ),
  tidegate_internal.constraint_trigger(
    'kind_retention', 'policy', 'insert or update of dedup_window',
    'execute function tidegate_internal.kind_retention()'
  );
