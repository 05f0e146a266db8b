-- webhook_redeliver_failed: By an operator: delivers failed deliveries again, one batch; go on at next_after.
--
-- In the order of the request ids, so deliveries that fail again meanwhile are not met again. `next_after` is null at
-- the end.
create or replace function tidegate.webhook_redeliver_failed(
  batch integer default 1000, after uuid default null,
  out redelivered bigint, out next_after uuid
)
  language plpgsql security definer as $$
declare
  v_ids uuid[] := array(
    select d.request_id
    from tidegate.webhook_delivery as d
    where d.state = 'failed'
      and d.request_id > coalesce(webhook_redeliver_failed.after, '00000000-0000-0000-0000-000000000000'::uuid)
    order by d.request_id
    limit batch
  );
begin
  -- Locked ones are being removed, or redelivered, at this moment: they are skipped.
  update tidegate.webhook_delivery as d
  set state = 'pending', attempt = 0, due_at = tidegate.clock(), finished_at = null
  where d.request_id = any(array(
    select f.request_id
    from tidegate.webhook_delivery as f
    where f.request_id = any(v_ids) and f.state = 'failed'
    for update skip locked
  ));
  get diagnostics redelivered = row_count;
  if cardinality(v_ids) = batch then
    next_after := v_ids[batch];
  end if;
end;
$$;
select tidegate_internal.allow('webhook_redeliver_failed', '{admin}');
