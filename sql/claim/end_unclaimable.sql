-- end_unclaimable: processing or tx_in_flight → failure, for requests that no worker may claim any more.
--
-- Their outcome must stay unknown (`unknown`: sent at most once, and lost), their attempts are used up (`exhausted`),
-- or their deadline has passed (`expired`). The caller has locked the rows and taken their messages.
create or replace function tidegate_internal.end_unclaimable(p_ids uuid[], p_fates text[])
  returns void language sql as $$
  update tidegate.request as r
  set
    req_status = 'failure', transition_no = r.transition_no + 1, queue = null, msg_id = null, lease = null,
    cause = case e.fate
      when 'unknown' then 'outcome_unknown' when 'expired' then 'deadline_exceeded' else 'attempts_exhausted'
    end,
    error = case e.fate
      when 'unknown' then tidegate_internal.error_json(
        'outcome_unknown', format('worker %s was lost while sending; the request may have been sent', r.worker), false)
      when 'expired' then tidegate_internal.error_json('deadline_exceeded',
        'the deadline passed before it was answered', true)
      else tidegate_internal.error_json(
        'attempts_exhausted',
        case r.req_status
          when 'tx_in_flight' then format('worker %s was lost at attempt %s, the last one', r.worker, r.tx_attempt)
          else format('the policy allows no attempt after the %s made', r.tx_attempt)
        end,
        true)
    end
  from unnest(p_ids, p_fates) as e(id, fate)
  where r.id = any(array[e.id]) and r.req_status in ('processing', 'tx_in_flight');
$$;
