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
  returns jsonb language plpgsql stable as $$
declare
  v_error    constant jsonb := tidegate_internal.with_last_error(p_error, p_last);
  v_repeats  constant boolean := p_request.send_id is not null;
  v_message  text := coalesce(p_error ->> 'message', 'no reason given');
  v_evidence text;
  v_again    boolean;
begin
  if jsonb_typeof(v_error) <> 'object' or (p_request.tx_attempt <= p_unsent and not p_own and not v_repeats) then
    return v_error;
  end if;
  if p_request.req_status = 'receipt_received' then
    v_message := v_message || coalesce('; taken as ' || p_request.reference, '');
  end if;
  if p_request.tx_attempt <= p_unsent then
    return v_error || jsonb_build_object(
      'retryable', not v_repeats and (v_error -> 'retryable') is not distinct from 'true',
      'message', v_message || case
        when not p_own then ''
        when p_error ->> 'code' = 'cancelled' then ' before it was sent'
        else '; it was not sent'
      end || case when v_repeats then '; what it repeats may have been executed' else '' end
    );
  end if;
  v_evidence := tidegate_internal.evidence(p_request.id, v_error);
  v_again := v_evidence is null and p_error -> 'retryable' = 'true'
    and exists (select from tidegate.kind as k where k.name = p_request.kind and k.key_after_unknown = 'free');
  return v_error || jsonb_build_object('retryable', v_again, 'message', v_message || case
    when v_evidence is not null then '; it was executed'
    when v_again then '; it may have been executed, and may be repeated'
    else case when p_own then '; it' else '; another call of it' end
      || ' may have been executed: poll it, ask the downstream, or send it again under a new key'
  end);
end;
$$;
