-- final_error: The error in which a request ends: its text says whether the request was executed, as far as that is
-- known, and only what may be repeated is retryable.
--
-- `p_error` is the error without that, and `p_last` that of the last check or send, if it failed. `p_unsent` of the
-- request's sends certainly had no effect. What may have been executed is retryable only in kinds whose key is free
-- afterwards. The text of an error that is not Tidegate's (`p_own` false) stays as it is if nothing was executed. After
-- a receipt it has the reference, under which the downstream can be asked. A repeat that had no effect says nothing of
-- what it repeats. `say_executed` replaces the end of a text.
create or replace function tidegate_internal.final_error(
  p_error jsonb, p_last jsonb, p_request tidegate.request, p_unsent integer, p_own boolean default true
)
  returns jsonb language sql stable as $$
  select case
    when jsonb_typeof(e.error) <> 'object'
      or (p_request.tx_attempt <= p_unsent and not p_own and p_request.send_id is null) then e.error
    when p_request.tx_attempt <= p_unsent then e.error || jsonb_build_object(
      'retryable', p_request.send_id is null and (e.error -> 'retryable') is not distinct from 'true',
      'message', e.message || case
        when not p_own then ''
        when p_error ->> 'code' = 'cancelled' then ' before it was sent'
        else '; it was not sent'
      end || case when p_request.send_id is not null then '; what it repeats may have been executed' else '' end
    )
    else e.error || (
      select jsonb_build_object('retryable', f.may_repeat, 'message', e.message || case
        when f.evidence is not null then '; it was executed'
        when f.may_repeat then '; it may have been executed, and may be repeated'
        else case when p_own then '; it' else '; another call of it' end
          || ' may have been executed: poll it, ask the downstream, or send it again under a new key'
      end)
      from (
        select
          s.evidence, s.evidence is null and k.key_after_unknown = 'free' and p_error -> 'retryable' = 'true'
            as may_repeat
        from tidegate.kind as k
        cross join tidegate_internal.evidence(p_request.id, e.error) as s(evidence)
        where k.name = p_request.kind
      ) as f
    )
  end
  from (
    select
      tidegate_internal.with_last_error(p_error, p_last) as error,
      coalesce(p_error ->> 'message', 'no reason given')
        || case when p_request.req_status = 'receipt_received' then coalesce('; taken as ' || p_request.reference, '')
          else '' end as message
  ) as e;
$$;
