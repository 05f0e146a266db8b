-- check_submission: Raises TG007 with the reason why no kind accepts a submission.
--
-- `p_latest` is the latest start that the kind takes. `p_quota` is a submitter with a quota; it is the reason if there
-- is no other.
create or replace function tidegate_internal.check_submission(
  p_payloads jsonb[], p_keys text[], p_submitters text[], p_admission text,
  p_not_before timestamptz, p_latest timestamptz, p_quota text, p_same_key text
)
  returns void language plpgsql stable as $$
declare
  v_count   constant integer := coalesce(cardinality(p_payloads), 0);
  v_refusal constant text := case
    when p_admission is null or p_admission not in ('enforce', 'accepted')
      then format('admission is ''enforce'' or ''accepted'', not %L', p_admission)
    when p_same_key is null or p_same_key not in ('compare', 'replay')
      then format('same_key is ''compare'' or ''replay'', not %L', p_same_key)
    -- Until it starts, a request takes a place in its queue.
    when p_not_before > p_latest
      then format('not_before is %s at the latest, by not_before_max of the kind, not %s', p_latest, p_not_before)
    when v_count > 10000 then format('a batch holds at most 10000 requests, not %s', v_count)
    when array_position(p_payloads, null) is not null
      then format('payload %s is null', array_position(p_payloads, null))
    when p_keys is not null and cardinality(p_keys) <> v_count
      then format('%s payloads need as many idempotency keys, not %s', v_count, cardinality(p_keys))
    when cardinality(p_submitters) is distinct from v_count
      then format('%s payloads need as many submitters, not %s', v_count, cardinality(p_submitters))
  end;
begin
  if v_refusal is not null then
    raise exception using errcode = 'TG007', message = v_refusal;
  end if;
  raise exception using errcode = 'TG007',
    message = format('submitter "%s" has a quota, so its requests do not share a submission with those of others',
      p_quota),
    hint = 'submit its requests by themselves';
end;
$$;
