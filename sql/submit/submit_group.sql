-- submit_group: (entry) → queued or processing, for up to 10000 unrelated requests of one kind; a closed gate refuses
-- each new one by itself.
--
-- As `submit_batch`, except when a gate does not let in all: then each request is answered as if it had been submitted
-- alone: `replayed` for the idempotency key of an earlier one, `accepted` for new ones as far as there is room, else
-- `refused`. For a node that gathers the requests of many callers in one statement: `submitters` are theirs, null for
-- none. A replay has only id, status and queue: the caller reads the rest (see `request_outlook`). `not_before` delays
-- all. `admission` is that of `submit_batch`, `same_key` that of `submit`. An error of one request is raised for all,
-- as by `submit_batch`; TG007, too, when one of several submitters has a quota. With `key_patience_ms`, 55P03 when an
-- idempotency key waits longer for another transaction. `traceparents` and `callback_urls`, null for none, are those of
-- the requests; TG009 for the URL of a new one that is not allowed.
create or replace function tidegate.submit_group(
  kind text, payloads jsonb[], idempotency_keys text[] default null, submitters text[] default null,
  not_before timestamptz default null, key_patience_ms integer default null, admission text default 'enforce',
  same_key text default 'compare', traceparents text[] default null, callback_urls text[] default null
)
  returns table (
    id uuid, outcome text, req_status tidegate.request_status, queue text, queue_position bigint,
    retry_after_seconds integer, eta_p50_ms bigint, eta_p90_ms bigint
  )
  language plpgsql security definer
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_observed boolean;
begin
  select t.eta_first is null into v_observed
  from tidegate.submit_terms as t
  where t.kind = submit_group.kind
    and cardinality(submit_group.payloads) = 1 and submit_group.not_before is null
    and submit_group.admission = 'enforce' and submit_group.callback_urls is null
    -- One of each or none, and the first is where [1] finds it.
    and coalesce(submit_group.idempotency_keys, array[null::text]) = array[submit_group.idempotency_keys[1]]
    and coalesce(submit_group.submitters, array[null::text]) = array[submit_group.submitters[1]];
  if found then
    select s.* into id, outcome, req_status, queue, queue_position, retry_after_seconds
    from tidegate.submit(
      submit_group.kind, submit_group.payloads[1], submit_group.idempotency_keys[1], submit_group.submitters[1],
      same_key => submit_group.same_key, key_patience_ms => submit_group.key_patience_ms,
      traceparent => submit_group.traceparents[1]
    ) as s;
    if v_observed and outcome = 'accepted' then
      select r.eta_p50_ms, r.eta_p90_ms into eta_p50_ms, eta_p90_ms
      from tidegate.request as r
      where r.id = submit_group.id;
    end if;
    return next;
    return;
  end if;
  return query select * from tidegate_internal.submit_requests(
    submit_group.kind, submit_group.payloads, submit_group.idempotency_keys,
    coalesce(submit_group.submitters, array_fill(null::text, array[coalesce(cardinality(submit_group.payloads), 0)])),
    submit_group.admission, submit_group.not_before, true, submit_group.key_patience_ms,
    submit_group.same_key, p_traceparents => submit_group.traceparents,
    p_callback_urls => submit_group.callback_urls
  );
end;
$$;
select tidegate_internal.allow('submit_group', '{api,admin}');
