-- evidence: What shows that a request was executed that ends with this error after a send that may have been: settle or
-- response; null: nothing does.
--
-- A worker that could not store an answer, or write the effect of a receipt, has had it. A response may have come
-- before the receipt. A share is no answer: it takes several.
create or replace function tidegate_internal.evidence(p_id uuid, p_error jsonb)
  returns text language plpgsql stable as $$
begin
  return case
    when p_error ->> 'code' in ('unstorable_response', 'effect_failed')
      or p_error -> 'last_error' ->> 'code' = 'effect_failed'
      or exists (
        select from tidegate.stored_event as e where e.request_id = p_id and e.detail ->> 'code' = 'effect_failed'
      )
      then 'settle'
    when exists (
        select from tidegate.response_inbox as i where i.request_id = p_id and i.part is null
      )
      or exists (
        select
        from tidegate.request_reference as f
        join tidegate.response_inbox as i on i.reference = f.reference
        where f.request_id = p_id and not i.late and i.request_id is null and i.part is null
      )
      then 'response'
  end;
end;
$$;
select tidegate_internal.plan_along_indexes('evidence');
