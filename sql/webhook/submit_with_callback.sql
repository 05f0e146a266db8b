-- submit_with_callback: submit, with a callback URL; a replay keeps the URL of the first submission.
--
-- Of a replay only id, status and queue are returned. A replay succeeds even when this URL is not allowed (any more).
-- Raises as `submit` does, and TG009 for such a URL.
create or replace function tidegate.submit_with_callback(
  kind text, payload jsonb, callback_url text, idempotency_key text default null,
  submitter text default null, admission text default 'enforce', not_before timestamptz default null,
  same_key text default 'compare', traceparent text default null
)
  returns table (
    id uuid, outcome text, req_status tidegate.request_status, queue text, queue_position bigint,
    retry_after_seconds integer, eta_p50_ms bigint, eta_p90_ms bigint
  )
  language plpgsql security definer
  set plan_cache_mode = force_generic_plan
as $$
begin
  select s.* into strict id, outcome, req_status, queue, queue_position, retry_after_seconds, eta_p50_ms, eta_p90_ms
  from tidegate_internal.submit_requests(
    submit_with_callback.kind, array[submit_with_callback.payload], array[submit_with_callback.idempotency_key],
    array[submit_with_callback.submitter], submit_with_callback.admission, submit_with_callback.not_before, true,
    p_same_key => submit_with_callback.same_key, p_traceparents => array[submit_with_callback.traceparent]
  ) as s;
  if outcome = 'accepted' and submit_with_callback.callback_url is not null then
    perform tidegate.set_callback(submit_with_callback.id, submit_with_callback.callback_url);
  end if;
  return next;
end;
$$;
select tidegate_internal.allow('submit_with_callback', '{api,admin}');
