-- submit_batch: (entry) → queued or processing, for up to 10000 requests of one kind, all or none; returns a row for
-- each, in order.
--
-- Returns a row for each payload, in their order: `accepted` with the new request, or `replayed` with the earlier
-- request of the same idempotency key. Everything commits with the caller's transaction. `admission` is 'enforce' (when
-- a gate of the kind is closed, or has no room for all new requests, the whole batch is `refused`: ids null, and a
-- Retry-After) or 'accepted' (never refused). Raises TG002 (unknown kind), TG003 (no nominal times), TG004 (key reused
-- with another payload), TG007 (misuse, such as 'enforce' above READ COMMITTED), TG011 (more than a gate ever lets in),
-- TG012 (a key is missing that the kind requires), 55P03 (another transaction keeps the lock of a quota). `traceparent`
-- is that of all of them.
create or replace function tidegate.submit_batch(
  kind text, payloads jsonb[], idempotency_keys text[] default null, submitter text default null,
  admission text default 'enforce', traceparent text default null
)
  returns table (
    id uuid, outcome text, req_status tidegate.request_status, queue text, queue_position bigint,
    retry_after_seconds integer
  )
  language plpgsql security definer
  set plan_cache_mode = force_generic_plan
as $$
begin
  return query select
    s.id, s.outcome, s.req_status, s.queue, s.queue_position, s.retry_after_seconds
  from tidegate_internal.submit_requests(
    submit_batch.kind, submit_batch.payloads, submit_batch.idempotency_keys,
    array_fill(submit_batch.submitter, array[coalesce(cardinality(submit_batch.payloads), 0)]),
    submit_batch.admission, null,
    p_traceparents => array_fill(submit_batch.traceparent, array[coalesce(cardinality(submit_batch.payloads), 0)])
  ) as s;
end;
$$;
select tidegate_internal.allow('submit_batch', '{api,admin}');
