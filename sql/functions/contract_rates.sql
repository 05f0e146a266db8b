-- tidegate.contract_rates: the indicators of a stage over the last five minutes, as a contract judges them
--
-- Null where nothing was measured. `error_ratio` is of calls; the others as the policies' seed has them: retries and
-- timeouts of requests, replays of submissions.
create or replace function tidegate.contract_rates(
  p_kind            text,
  p_stage           tidegate.stage,
  out timeout_rate  numeric,
  out retry_rate    numeric,
  out error_ratio   numeric,
  out dup_drop_rate numeric,
  out calls         text,
  out submissions   text
)
  language plpgsql
  stable
as $$
declare
  v_since constant timestamptz := clock_timestamp() - interval '5 minutes';
  v_calls record;
  v_asked record;
begin
  select * into v_calls from tidegate.calls_since(p_kind, p_stage, v_since);
  if v_calls.calls > 0 then
    timeout_rate := round(v_calls.timeouts::numeric / nullif(v_calls.requests, 0), 6);
    retry_rate := round(v_calls.retries::numeric / nullif(v_calls.requests, 0), 6);
    error_ratio := round(v_calls.failures::numeric / v_calls.calls, 6);
    calls := format('%s calls for %s requests in 5 minutes: %s timeouts, %s retries, %s failures',
      v_calls.calls, v_calls.requests, v_calls.timeouts, v_calls.retries, v_calls.failures);
  end if;
  -- A database of an earlier version counts no submissions.
  if to_regclass('tidegate.submission_sample') is not null then
    execute 'select coalesce(sum(s.submitted), 0) as submitted, coalesce(sum(s.replayed), 0) as replayed
      from tidegate.submission_sample as s where s.kind = $1 and s.at >= $2' into v_asked using p_kind, v_since;
    if v_asked.submitted > 0 then
      dup_drop_rate := round(v_asked.replayed::numeric / v_asked.submitted, 6);
      submissions := format('%s submissions in 5 minutes, %s of them replays', v_asked.submitted, v_asked.replayed);
    end if;
  end if;
end;
$$;
