-- answer_requests: receipt_received → completed, or failure by a verdict: requests by what answers each.
--
-- `p_causes` are response, threshold_reached, verdict_accepted or verdict_rejected. The caller has locked the rows, and
-- knows that they await a response.
--
-- A rejected proof's error has the verdict as `details` if its kind has `reject_details` now. It is in the row, so that
-- polls, streams and every attempt of a webhook show the same.
create or replace function tidegate_internal.answer_requests(p_ids uuid[], p_causes text[], p_responses jsonb[])
  returns void language plpgsql as $$
declare
  v_done text; -- for an assignment, which costs less than a statement
begin
  v_done := set_config('tidegate.declared', pg_current_xact_id()::text, true);
  update tidegate.request as r
  set
    previous_status = r.req_status, transition_no = r.transition_no + 1, cause = a.cause,
    req_status = (case a.cause when 'verdict_rejected' then 'failure' else 'completed' end)::tidegate.request_status,
    finished_at = tidegate.clock(),
    response = a.response,
    error = case when a.cause = 'verdict_rejected' then
      tidegate_internal.error_json('verdict_rejected', 'the downstream rejected the proof', false) || case
        when a.response <> 'null' and (select k.reject_details from tidegate.kind as k where k.name = r.kind)
        then jsonb_build_object('details', a.response)
        else '{}'
      end
    end
  from unnest(p_ids, p_causes, p_responses) as a(id, cause, response)
  where r.id = a.id and r.req_status = 'receipt_received';
  v_done := set_config('tidegate.declared', '', true);
  if 'verdict_rejected' = any(p_causes) then
    perform from tidegate_internal.establish(
      array(select a.id from unnest(p_ids, p_causes) as a(id, cause) where a.cause = 'verdict_rejected'), 'yes',
      'response'
    );
  end if;
end;
$$;
select tidegate_internal.plan_along_indexes('answer_requests');
