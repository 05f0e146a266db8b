-- record_receipt: Keeps a receipt of a request that has ended, whose row is locked: its response as a late one, which
-- establishes that the request was executed, and its reference, under which a response may come.
--
-- The reference only if the request has none, and no other request has it.
create or replace function tidegate_internal.record_receipt(
  p_id uuid, p_reference text, p_response jsonb, p_source text
)
  returns void language plpgsql
as $$
begin
  if p_response is not null then
    perform tidegate_internal.resolve_requests(array[p_id], 'yes', p_source, p_answers => true);
    insert into tidegate.response_inbox (request_id, reference, response, late)
    values (p_id, p_reference, p_response, true);
  end if;
  if p_reference is not null then
    insert into tidegate.request_reference (reference, request_id)
    select p_reference, r.id from tidegate.request as r where r.id = p_id and r.reference is null
    on conflict do nothing;
    update tidegate.request as r
    set previous_status = r.req_status, reference = p_reference
    where r.id = p_id and exists (
      select from tidegate.request_reference as f where f.reference = p_reference and f.request_id = p_id
    );
  end if;
end;
$$;
select tidegate_internal.plan_along_indexes('record_receipt');
