-- say_executed: Says in the errors of ended requests whether they were executed, and if not, who says so.
--
-- What was not may be submitted again, unless that has been done, or it repeats a request that may have been executed.
create or replace function tidegate_internal.say_executed(p_ids uuid[], p_executed text, p_source text)
  returns void language plpgsql as $$
begin
  update tidegate.request as r
  set previous_status = r.req_status, error = r.error || jsonb_build_object(
    'retryable', p_executed = 'no' and r.send_id is null
      and not exists (select from tidegate.redrive as v where v.request_id = r.id),
    'message', regexp_replace(
      coalesce(r.error ->> 'message', ''),
      '; (it|another call of it) (was executed|was not executed(, says [a-z ]+)?|may have been executed(, and may be '
        'repeated|: poll it, ask the downstream, or send it again under a new key)?)$', ''
    ) || case
      when p_executed = 'yes' then '; it was executed'
      when p_source = 'operator' then '; it was not executed, says an operator'
      when p_source in ('downstream', 'search', 'receipt_taken_back')
        then '; it was not executed, says the downstream'
      else '; it was not executed'
    end
  )
  where r.id = any(p_ids) and jsonb_typeof(r.error) = 'object';
end;
$$;
select tidegate_internal.plan_along_indexes('say_executed');
