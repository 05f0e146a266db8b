-- check_submission: raises TG007 for a submission that no kind takes
create or replace function tidegate_internal.check_submission(
  p_payloads jsonb[], p_keys text[], p_admission text, p_not_before timestamptz
)
  returns void
  language plpgsql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_count integer := coalesce(cardinality(p_payloads), 0);
begin
  if p_admission is null or p_admission not in ('enforce', 'accepted') then
    raise exception using
      errcode = 'TG007',
      message = format('admission is ''enforce'' or ''accepted'', not %L', p_admission);
  end if;
  if p_not_before = 'infinity' then
    raise exception using
      errcode = 'TG007', message = 'not_before is a time, not infinity: such a request would never start';
  end if;
  if v_count > 10000 then
    raise exception using
      errcode = 'TG007', message = format('a batch holds at most 10000 requests, not %s', v_count);
  end if;
  if array_position(p_payloads, null) is not null then
    raise exception using
      errcode = 'TG007', message = format('payload %s is null', array_position(p_payloads, null));
  end if;
  if p_keys is not null and cardinality(p_keys) <> v_count then
    raise exception using
      errcode = 'TG007', message = format('%s payloads need as many idempotency keys, not %s', v_count, cardinality(p_keys));
  end if;
end;
$$;

comment on function tidegate_internal.check_submission is 'Raises TG007 for a submission that no kind takes.';
