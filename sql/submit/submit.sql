-- submit: (entry) → queued (decrypt) or processing (proof, direct), for one request; returns its id, outcome (accepted,
-- replayed or refused), position and when to come back.
--
-- Returns one row: the request's id, `accepted`, `replayed` (same idempotency key, same payload) or `refused` (the gate
-- is closed; id null), its status, queue and position, and in how many seconds to ask again. Commits with the
-- caller's transaction. `not_before` delays it. `same_key`: 'compare', or 'replay' when the key decides alone, whatever
-- the payload. See `submit_batch` for `admission` and what it raises.
create or replace function tidegate.submit(
  kind text, payload jsonb, idempotency_key text default null, submitter text default null,
  admission text default 'enforce', not_before timestamptz default null, same_key text default 'compare'
)
  returns table (
    id uuid, outcome text, req_status tidegate.request_status, queue text, queue_position bigint,
    retry_after_seconds integer
  )
  language plpgsql security definer
  -- A plan that is kept may have been made for empty tables: along indexes it serves full ones, too.
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_sort = off
  set tidegate.submits = on
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_plain record;
begin
  if submit.not_before is null and submit.admission = 'enforce' then
    v_plain := tidegate_internal.submit_plain(submit.kind, submit.payload, submit.submitter, submit.idempotency_key,
      null, submit.same_key);
    if v_plain.id is not null then
      id := v_plain.id;
      outcome := 'accepted';
      req_status := v_plain.req_status;
      queue := v_plain.queue;
      queue_position := v_plain.queue_position;
      retry_after_seconds := v_plain.retry_after_seconds;
      return next;
      return;
    end if;
  end if;
  return query select
    s.id, s.outcome, s.req_status, s.queue, s.queue_position, s.retry_after_seconds
  from tidegate_internal.submit_requests(
    submit.kind, array[submit.payload], array[submit.idempotency_key], array[submit.submitter], submit.admission,
    submit.not_before, p_same_key => submit.same_key
  ) as s;
end;
$$;
select tidegate_internal.allow('submit', '{api,admin}');
