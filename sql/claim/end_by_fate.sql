-- end_by_fate: Ends requests that no worker may claim any more, as `end_unclaimable` has it; returns them.
create or replace function tidegate_internal.end_by_fate(p_ids uuid[], p_fates text[])
  returns setof uuid language plpgsql
as $$
begin
  return query
    update tidegate.request as r
    set
      req_status = (case r.req_status when 'queued' then 'timed_out' else 'failure' end)::tidegate.request_status,
      previous_status = r.req_status, transition_no = r.transition_no + 1, finished_at = tidegate.clock(), queue = null,
      msg_id = null, lease = null, ended_lease = r.lease, cause = e.cause,
      error = tidegate_internal.final_error(
        tidegate_internal.error_json(e.cause, e.message, e.cause <> 'cancelled'), r.error, r, r.tx_unsent
      )
    from (
      select
        o.id,
        case
          when o.req_status = 'queued' then 'readiness_timed_out'
          when f.fate = 'unknown' then 'outcome_unknown'
          when f.fate = 'expired' then 'deadline_exceeded'
          when f.fate = 'cancelled' then 'cancelled'
          else 'attempts_exhausted'
        end as cause,
        case
          when o.req_status = 'queued' then format('not ready in time, after %s checks', o.readiness_attempt)
          when f.fate = 'unknown'
            then format('worker %s was lost while sending', o.worker)
          when f.fate = 'expired' then 'the deadline passed before it was answered'
          when f.fate = 'cancelled' then 'cancelled'
          when o.req_status = 'tx_in_flight'
            then format('worker %s was lost at attempt %s, the last one', o.worker, o.tx_attempt)
          else format('the policy allows no attempt after the %s made', o.tx_attempt)
        end as message
      from unnest(p_ids, p_fates) as f(id, fate)
      join tidegate.request as o on o.id = any(array[f.id])
      where o.req_status in ('queued', 'processing', 'tx_in_flight')
    ) as e
    where r.id = any(array[e.id])
    returning r.id;
end;
$$;
select tidegate_internal.plan_along_indexes('end_by_fate');
