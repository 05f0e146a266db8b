-- submit_batch_once: Submits many requests of one kind, all or none, under one idempotency key; a repeated call replays
-- the batch.
--
-- The same key and payloads, in the same order, are the same batch: each request has a key of its own, made of the
-- batch's key and the payload's place in it. So a repeated call replays each request, and submits again only those
-- whose keys are free again. Returns and raises as `submit_batch` does, and TG004 when the key stands for a batch with
-- other payloads, or, as long as the key of its first request stands, with more or fewer.
create or replace function tidegate.submit_batch_once(
  kind text, payloads jsonb[], idempotency_key text, submitter text default null,
  admission text default 'enforce', traceparent text default null
)
  returns table (
    id uuid, outcome text, req_status tidegate.request_status, queue text, queue_position bigint,
    retry_after_seconds integer
  )
  language plpgsql security definer as $$
declare
  -- With spaces, so that no key that comes over HTTP is equal to it.
  v_key   text := 'batch ' || encode(sha256(convert_to(submit_batch_once.idempotency_key, 'UTF8')), 'hex');
  v_scope text := (
    select tidegate_internal.key_scope(k.name, k.key_scope, submit_batch_once.submitter)
    from tidegate.kind as k
    where k.name = submit_batch_once.kind
  );
  v_first uuid;
begin
  if coalesce(length(submit_batch_once.idempotency_key), 0) not between 1 and 255 then
    raise exception using errcode = 'TG007', message = 'a batch''s idempotency key has 1 to 255 characters';
  end if;

  return query select * from tidegate.submit_batch(
    submit_batch_once.kind, submit_batch_once.payloads,
    array(select v_key || ' ' || n from generate_series(1, cardinality(submit_batch_once.payloads)) as n),
    submit_batch_once.submitter, submit_batch_once.admission, submit_batch_once.traceparent
  );

  -- The requests' keys do not show that a batch is longer or shorter than the first one: so the batch's key stands for
  -- the first request, with the fingerprint of all payloads. When that request's key is free again, a repeated call
  -- stores its own fingerprint. Of two concurrent calls one has waited for the other at the first request's key, so
  -- that none waits here. A refused batch stores nothing: the first key is then unknown or free.
  select d.request_id into v_first
  from tidegate.dedup as d
  where d.scope = v_scope and d.key = v_key || ' 1' and cardinality(submit_batch_once.payloads) > 0
    and tidegate_internal.dedup_target(d, tidegate.clock()) is not null;
  if found then
    perform tidegate_internal.dedup_claim_all(
      k, array[v_scope], array[v_key], null,
      array[case when k.key_compares = 'payload' then tidegate_internal.fingerprint(
        (select jsonb_agg(tidegate_internal.sort_sets(p.payload, coalesce(k.set_paths, '{}')) order by p.place)
         from unnest(submit_batch_once.payloads) with ordinality as p(payload, place)),
        null
      ) end],
      array[v_first], true
    )
    from tidegate.kind as k
    where k.name = submit_batch_once.kind;
  end if;
end;
$$;
select tidegate_internal.allow('submit_batch_once', '{api,admin}');
