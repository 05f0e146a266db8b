-- submit_with_callback: submit, with the URL that is told when the request ends; a replay keeps the URL of the first
-- submission.
--
-- Of a replay only id, status and queue are told. It keeps the callback of the first submission, and is answered even
-- when this URL may not be named (any more). Raises what `submit` raises, and TG009 for such a URL.
create or replace function tidegate.submit_with_callback(
  kind            text,
  payload         jsonb,
  callback_url    text,
  idempotency_key text default null,
  submitter       text default null,
  admission       text default 'enforce',
  not_before      timestamptz default null
)
  returns table (
    id uuid, outcome text, req_status tidegate.request_status, queue text, queue_position bigint,
    retry_after_seconds integer, eta_p50_ms bigint, eta_p90_ms bigint
  )
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
  set jit = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_submitted record;
begin
  select * into strict v_submitted from tidegate_internal.submit_requests(
    submit_with_callback.kind, array[submit_with_callback.payload], array[submit_with_callback.idempotency_key],
    array[submit_with_callback.submitter], submit_with_callback.admission, submit_with_callback.not_before, true
  );
  if v_submitted.outcome = 'accepted' and submit_with_callback.callback_url is not null then
    perform tidegate.set_callback(v_submitted.id, submit_with_callback.callback_url);
  end if;
  return query select
    v_submitted.id, v_submitted.outcome, v_submitted.req_status, v_submitted.queue, v_submitted.queue_position,
    v_submitted.retry_after_seconds, v_submitted.eta_p50_ms, v_submitted.eta_p90_ms;
end;
$$;
select tidegate_internal.allow('submit_with_callback', '{api,admin}');
