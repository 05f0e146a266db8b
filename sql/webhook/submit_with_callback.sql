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
  language plpgsql security definer as $$
begin
  return query select * from tidegate.submit_group(
    submit_with_callback.kind, array[submit_with_callback.payload], array[submit_with_callback.idempotency_key],
    array[submit_with_callback.submitter], submit_with_callback.not_before,
    admission => submit_with_callback.admission, same_key => submit_with_callback.same_key,
    traceparents => array[submit_with_callback.traceparent], callback_urls => array[submit_with_callback.callback_url]
  );
end;
$$;
select tidegate_internal.allow('submit_with_callback', '{api,admin}');
