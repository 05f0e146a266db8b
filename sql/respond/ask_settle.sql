-- ask_settle: For workers: there is no response to a request yet; when to ask again: a second later at least, and after
-- a tenth of the time since its receipt, up to a minute, unless `after` is longer.
--
-- A response is stored by `respond`, a failure by `fail_receipt`.
create or replace function tidegate.ask_settle(id uuid, after interval default null)
  returns void language plpgsql security definer as $$
begin
  update tidegate.awaiting_response as a
  set
    ask_at = c.now + greatest(
      ask_settle.after, interval '1 second', least((c.now - r.receipt_received_at) / 10, interval '1 minute')
    )
  from tidegate.request as r
  cross join (select tidegate.clock() as now) as c
  where a.request_id = ask_settle.id and r.id = a.request_id;
end;
$$;
select tidegate_internal.allow('ask_settle', '{worker,admin}');
select tidegate_internal.plan_along_indexes('ask_settle', 'hashjoin');
