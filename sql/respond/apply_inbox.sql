-- apply_inbox: Applies the responses that came before their receipt, for requests that await one now.
--
-- The caller holds the rows' locks, by having moved them to receipt_received in this transaction or by locking
-- them. A response that finds its request answered by an earlier one is kept and marked late, and so is one that
-- does not fit.
create or replace function tidegate_internal.apply_inbox(p_ids uuid[])
  returns bigint language plpgsql as $$
declare
  v_response record;
  v_outcome  text;
  v_applied  bigint := 0;
begin
  for v_response in
    select i.id, i.request_id, i.part, i.accept, i.response
    from tidegate.response_inbox as i
    where i.request_id = any(p_ids) and not i.late
    union all
    select i.id, f.request_id, i.part, i.accept, i.response
    from tidegate.request_reference as f
    join tidegate.response_inbox as i on i.reference = f.reference
    where f.request_id = any(p_ids) and i.request_id is null and not i.late
    order by id
  loop
    v_outcome := tidegate_internal.apply_response(v_response.request_id, v_response.response, v_response.part,
      v_response.accept);
    if v_outcome in ('completed', 'rejected', 'stored', 'duplicate') then
      delete from tidegate.response_inbox as i where i.id = v_response.id;
      v_applied := v_applied + 1;
    else
      -- Of a request that has ended; a share is no answer.
      if v_response.part is null then
        perform tidegate_internal.resolve_requests(
          array[v_response.request_id], 'yes', 'response', p_answers => true
        );
      end if;
      update tidegate.response_inbox as i
      set late = true, request_id = v_response.request_id
      where i.id = v_response.id;
    end if;
  end loop;
  return v_applied;
end;
$$;
select tidegate_internal.plan_along_indexes('apply_inbox');
