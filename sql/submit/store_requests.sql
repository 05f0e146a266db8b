-- store_requests: Stores new requests under the numbers that were drawn for them, and counts them; TG009 for a callback
-- URL that is not allowed.
--
-- Of `p_ids` the first have a number; the other arrays may be longer.
create or replace function tidegate_internal.store_requests(
  p_kind tidegate.kind, p_queue text, p_status tidegate.request_status, p_now timestamptz, p_not_before timestamptz,
  p_ids uuid[], p_numbers bigint[], p_payloads jsonb[], p_submitters text[], p_etas tidegate.retry_after[],
  p_traceparents text[], p_callback_urls text[]
)
  returns void language plpgsql as $$
declare
  v_counted constant text := current_setting('tidegate.counted', true);
  v_done    text; -- for an assignment, which costs less than a statement
begin
  if p_callback_urls is not null then
    perform tidegate_internal.require_callback(u.url)
    from (select distinct c.url from unnest(p_callback_urls[:cardinality(p_ids)]) as c(url)) as u;
  end if;
  v_done := set_config('tidegate.counted', pg_current_xact_id()::text, true);
  insert into tidegate.request (
    id, kind, flow, req_status, cause, response_threshold, queue, msg_id, submitted_at, queued_at, processing_at,
    deadline_at, readiness_deadline_at, submitter, eta_seconds, eta_p50_ms, eta_p90_ms, payload, traceparent,
    callback_url
  )
  select
    n.id, p_kind.name, p_kind.flow, p_status, 'submitted', p_kind.response_threshold, p_queue, n.msg_id, p_now,
    case p_status when 'queued' then p_now end, case p_status when 'processing' then p_now end,
    greatest(p_now, p_not_before) + p_kind.deadline,
    case when p_kind.flow = 'decrypt' then greatest(p_now, p_not_before) + p_kind.readiness_timeout end,
    n.submitter, n.seconds, n.p50_ms, n.p90_ms, n.payload, tidegate_internal.valid_traceparent(n.traceparent),
    n.callback_url
  from unnest(p_ids, p_numbers, p_payloads, p_submitters, p_etas, p_traceparents, p_callback_urls)
    as n(id, msg_id, payload, submitter, seconds, p50_ms, p90_ms, traceparent, callback_url)
  where n.msg_id is not null;
  v_done := set_config('tidegate.counted', v_counted, true);
  insert into tidegate.request_count_delta (kind, req_status, delta, submitted)
  values (p_kind.name, p_status, cardinality(p_ids), cardinality(p_ids));
end;
$$;
