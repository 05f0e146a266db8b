-- webhook_settle: For deliverers: records the outcome of one attempt; returns the delivery's state, or null when the
-- lease was lost.
--
-- As `webhook_settle_many`, and waits for a transaction that holds the delivery.
create or replace function tidegate.webhook_settle(
  request_id uuid, nonce bigint, outcome text, status integer default null, error text default null,
  wait interval default null
)
  returns text language plpgsql security definer as $$
begin
  perform from tidegate.webhook_delivery as d
    where d.request_id = webhook_settle.request_id and d.nonce = webhook_settle.nonce
    for no key update;
  return (
    select s.state
    from tidegate.webhook_settle_many(array[request_id], array[nonce], array[outcome], array[status], array[error],
      array[(extract(epoch from wait) * 1000)::bigint]) as s
  );
end;
$$;
select tidegate_internal.allow('webhook_settle', '{node,admin}');
