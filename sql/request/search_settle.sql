-- search_settle: For workers: what a search for the receipt of an unresolved request has found: receipt, answered or
-- never. Returns resolved, recorded (a receipt without a response: the downstream took it, which does not say that it
-- executed it) or dropped (the downstream has said so by now, or it was repeated).
--
-- `answered` is a receipt whose response cannot be stored: the request was executed, and nothing of the answer is kept.
-- `never` is the downstream's promise that it has not executed the request and will not. A search that finds nothing
-- proves nothing, and is not settled. Raises TG007 for another word.
create or replace function tidegate.search_settle(
  id uuid, finding text, reference text default null, response jsonb default null
)
  returns text language plpgsql security definer as $$
begin
  if search_settle.finding in ('receipt', 'answered', 'never') is not true then
    raise exception using errcode = 'TG007',
      message = format('a search finds ''receipt'', ''answered'' or ''never'', not %L', search_settle.finding);
  end if;
  perform from tidegate.request as r where r.id = search_settle.id for update;
  if not exists (
    select from tidegate.outcome as o
    where o.request_id = search_settle.id and (o.executed = 'unknown' or o.source = 'operator')
      and not tidegate_internal.is_repeated(o.request_id)
  ) then
    return 'dropped';
  end if;
  if search_settle.finding <> 'receipt' then
    perform tidegate_internal.resolve_requests(
      array[search_settle.id], case search_settle.finding when 'never' then 'no' else 'yes' end, 'search'
    );
    return 'resolved';
  end if;
  perform tidegate_internal.record_receipt(search_settle.id, search_settle.reference, search_settle.response, 'search');
  return case when search_settle.response is null then 'recorded' else 'resolved' end;
end;
$$;
select tidegate_internal.allow('search_settle', '{worker,admin}');
