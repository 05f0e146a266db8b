-- kind_fits_policies: Trigger on kind and policy: the stages of a kind fit its deadline and its latency target (TG013),
-- it keeps ended requests for as long as their idempotency keys stand for them, and its keys are free after a send that
-- may have been executed only where its sends may be repeated.
--
-- Or a duplicate inside the window would find its request gone, or be sent a second time. At the end of the
-- transaction, because a kind and its policies may change together; one after the other, because two that change at
-- once see only their own half.
create or replace function tidegate_internal.kind_fits_policies()
  returns trigger language plpgsql security definer as $$
declare
  v_kind   text := coalesce(to_jsonb(new) ->> 'kind', to_jsonb(new) ->> 'name');
  v_reason text;
begin
  perform pg_advisory_xact_lock(hashtextextended('tidegate.configuration', 0));
  v_reason := tidegate_internal.kind_refusal(v_kind);
  if v_reason is not null then
    raise exception using errcode = 'TG013',
      message = format('the policies of kind "%s" are refused: %s', v_kind, v_reason),
      hint = 'nothing has changed; a kind and its policies may change together, in one transaction or one '
        '`tidegate config set`';
  end if;
  select format('retention %s < dedup_window %s', k.retention, p.dedup_window) into v_reason
  from tidegate.kind as k
  join tidegate.policy as p on p.kind = k.name and p.stage = 'tx'
  where k.name = v_kind and k.retention < p.dedup_window;
  if found then
    raise exception using errcode = 'check_violation',
      constraint = 'kind_retention_is_at_least_the_dedup_window',
      message = format('kind "%s" would delete requests that their idempotency keys stand for: %s', v_kind, v_reason),
      hint = format('nothing has changed; %1$s.retention and %1$s.tx.dedup_window may change together, in one '
        'transaction or one `tidegate config set`', v_kind);
  end if;
  select p.semantics into v_reason
  from tidegate.kind as k
  join tidegate.policy as p on p.kind = k.name and p.stage = 'tx'
  where k.name = v_kind and k.key_after_unknown = 'free' and p.semantics in ('at_most_once', 'exactly_once');
  if found then
    raise exception using errcode = 'check_violation',
      constraint = 'kind_key_is_free_only_where_sends_may_be_repeated',
      message = format('kind "%s" would send again what may have been executed: key_after_unknown free with '
        'semantics %s', v_kind, v_reason),
      hint = format('nothing has changed; %1$s.key_after_unknown and %1$s.tx.semantics may change together, in one '
        'transaction or one `tidegate config set`', v_kind);
  end if;
  return null;
end;
$$;

select
  tidegate_internal.constraint_trigger(
    'kind_fits_policies', 'kind', 'insert or update of deadline, retention, slo_p99_ms, key_after_unknown',
    'execute function tidegate_internal.kind_fits_policies()'
  ),
  tidegate_internal.constraint_trigger(
    'kind_fits_policies', 'policy', 'insert or update', 'execute function tidegate_internal.kind_fits_policies()'
  );
