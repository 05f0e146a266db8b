-- settle_late: What the outcomes of sends whose requests have ended meanwhile tell about these: an answer, that the
-- send had no effect, or a reference.
--
-- For leases that a settle did not find held, while their claim still lists the request, which a settle does once. An
-- answer establishes that the request was executed, and a response is kept as a late one. A send that had no effect
-- counts as such; if none is left that may have been executed, the request was not. A receipt without a response proves
-- nothing, but its reference is kept, if the request has none and it is free: a response may come under it. One of each
-- array for each lease; null arrays tell nothing.
create or replace function tidegate_internal.settle_late(
  p_leases tidegate.lease[], p_unsent boolean[], p_moved uuid[] default null, p_refs text[] default null,
  p_responses jsonb[] default null
)
  returns void language plpgsql
  set tidegate.announced = ''
as $$
declare
  v_late record;
begin
  for v_late in
    select
      l.id, l.token, c.part, p_unsent[l.place] as unsent, p_refs[l.place] as reference, p_responses[l.place] as response
    from unnest(p_leases) with ordinality as l(queue, token, id, place)
    join tidegate.outcome as o on o.request_id = l.id and o.executed = 'unknown'
    join tidegate.claim as c on c.token = l.token and l.id = any(c.ids)
    where l.id <> all(coalesce(p_moved, '{}'))
    order by l.id
  loop
    -- Neither row is waited for, because this settle has locked others: then the request stays unresolved.
    perform from tidegate.request as r where r.id = v_late.id for update skip locked;
    continue when not found;
    perform from tidegate.claim as c
    where c.token = v_late.token and c.part = v_late.part and v_late.id = any(c.ids)
    for update skip locked;
    continue when not found;
    update tidegate.claim as c
    set ids = array_remove(c.ids, v_late.id)
    where c.token = v_late.token and c.part = v_late.part;

    if v_late.response is not null then
      insert into tidegate.response_inbox (request_id, reference, response, late)
      values (v_late.id, v_late.reference, v_late.response, true);
      perform from tidegate_internal.resolve_requests(array[v_late.id], 'yes', 'response');
    elsif v_late.unsent then
      update tidegate.request as r
      set tx_unsent = r.tx_unsent + 1
      where r.id = v_late.id and r.tx_unsent < r.tx_attempt;
      if exists (select from tidegate.request as r where r.id = v_late.id and r.tx_unsent = r.tx_attempt) then
        perform from tidegate_internal.resolve_requests(array[v_late.id], 'no', 'settle');
      end if;
    end if;
    if v_late.reference is not null then
      insert into tidegate.request_reference (reference, request_id)
      select v_late.reference, r.id from tidegate.request as r where r.id = v_late.id and r.reference is null
      on conflict do nothing;
      update tidegate.request as r
      set reference = v_late.reference
      where r.id = v_late.id and exists (
        select from tidegate.request_reference as f
        where f.reference = v_late.reference and f.request_id = v_late.id
      );
    end if;
  end loop;
end;
$$;
select tidegate_internal.plan_along_indexes('settle_late');
