-- end_unclaimed: Ends the requests that a claim has taken and may not claim, and puts back those that go on waiting.
--
-- Requests whose attempts are used up, or whose deadline has passed, end. A row that another transaction has locked is
-- skipped, because this one holds rows, too, and locks rows in the order of their ids only: its message goes back for a
-- moment. If that transaction ends the request, the message is a stray, and the claim that takes it next drops it. All
-- other messages were strays and duplicates, and are gone.
create or replace function tidegate_internal.end_unclaimed(
  p_queue text, p_stage tidegate.stage, p_msg_ids bigint[], p_ids uuid[], p_now timestamptz
)
  returns void language plpgsql as $$
declare
  v_pause  constant interval := '250 ms';
  v_refused constant interval := '1 minute';
  v_status constant tidegate.request_status := case p_stage when 'tx' then 'processing' else 'queued' end;
  v_ended  record;
begin
  select array_agg(f.id) as ids, array_agg(f.fate) as fates into v_ended
  from (
    select r.id, case
      when r.req_status = 'processing'
          and r.tx_attempt - r.tx_unsent > case p.semantics when 'at_most_once' then 0 else p.attempts end
        or r.req_status = 'queued' and r.readiness_attempt - r.readiness_waits >= p.attempts then 'exhausted'
      when r.deadline_at <= p_now or r.req_status = 'queued' and r.readiness_deadline_at <= p_now then 'expired'
    end as fate
    from (
      select r.*
      from unnest(p_ids, p_msg_ids) as t(id, msg_id)
      join tidegate.request as r on r.id = any(array[t.id]) and r.msg_id = t.msg_id
      where r.queue = p_queue and r.req_status = v_status and r.lease is null
      for update of r skip locked
    ) as r
    join tidegate.policy_in_force as p on p.kind = r.kind and p.stage = p_stage
  ) as f
  where f.fate is not null;
  perform tidegate_internal.end_unclaimable(v_ended.ids, v_ended.fates);

  perform tidegate_internal.put_back(
    p_queue, array_agg(t.msg_id), array_agg(t.id),
    array_agg(p_now + case when r.id = any(v_ended.ids) then v_refused else v_pause end)
  )
  from unnest(p_ids, p_msg_ids) as t(id, msg_id)
  join tidegate.request as r on r.id = any(array[t.id]) and r.msg_id = t.msg_id
  where r.queue = p_queue and r.req_status = v_status and r.lease is null;
end;
$$;
select tidegate_internal.plan_along_indexes('end_unclaimed');
