-- tidegate.settle_retry: tx_in_flight → processing, for sends worth another attempt
--
-- The message becomes visible again `after` (one per lease, null: by the kind's policy). `may_have_left` (one per
-- lease, null: true) says that the downstream may have seen the request. Instead of being retried a request ends in
-- failure when its attempts are used up, when the wait would outlive its deadline, or, with at_most_once semantics,
-- when it may have left (outcome_unknown). Returns what became of each request still held.
create or replace function tidegate.settle_retry(
  leases        tidegate.lease[],
  errors        jsonb[],
  after         interval[] default null,
  may_have_left boolean[] default null
)
  returns table (id uuid, req_status tidegate.request_status)
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
  set jit = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_held  record;
  v_now   timestamptz := clock_timestamp();
  v_moved record;
begin
  select * into v_held from tidegate.lock_held(leases);
  if v_held.ids is null then
    return;
  end if;

  with judged as materialized (
    select
      r.id, h.msg_id, h.place, v_now + wait.backoff as visible,
      case
        when p.semantics = 'at_most_once' and coalesce(may_have_left[h.place], true) then 'outcome_unknown'
        when r.tx_attempt >= p.attempts then 'attempts_exhausted'
        when v_now + wait.backoff >= r.deadline_at then 'deadline_exceeded'
        else 'send_retried'
      end as cause
    from unnest(v_held.ids, v_held.msg_ids, v_held.places) as h(id, msg_id, place)
    join tidegate.request as r on r.id = h.id
    join tidegate.policy as p on p.kind = r.kind and p.stage = 'tx'
    cross join lateral (
      select coalesce(
        greatest(settle_retry.after[h.place], interval '0'),
        tidegate.backoff(r.tx_attempt, p.base_ms, p.factor, p.cap_ms, p.jitter_ms, 2 * random() - 1)
      ) as backoff
    ) as wait
  ), moved as (
    update tidegate.request as r
    set
      req_status = (case j.cause when 'send_retried' then 'processing' else 'failure' end)::tidegate.request_status,
      transition_no = r.transition_no + 1,
      cause = j.cause,
      queue = case j.cause when 'send_retried' then r.queue end,
      msg_id = case j.cause when 'send_retried' then r.msg_id end,
      error = case j.cause
        when 'send_retried' then errors[j.place]
        else tidegate.error_json(
          j.cause,
          format('attempt %s: %s', r.tx_attempt, coalesce(errors[j.place] ->> 'message', 'no reason given')),
          j.cause <> 'outcome_unknown'
        )
      end
    from judged as j
    where r.id = j.id and r.req_status = 'tx_in_flight' and r.queue = v_held.queue and r.msg_id = j.msg_id
    returning r.id, r.req_status, j.msg_id, j.visible
  )
  select
    array_agg(m.id) as ids,
    array_agg(m.req_status) as statuses,
    array_agg(m.msg_id) filter (where m.req_status = 'failure') as done,
    array_agg(m.msg_id) filter (where m.req_status = 'processing') as kept,
    array_agg(case when m.visible <= v_now then '-infinity' else m.visible end)
      filter (where m.req_status = 'processing') as visible
  into v_moved
  from moved as m;

  perform tidegate.delete_messages(v_held.queue, v_moved.done, true);
  if v_moved.kept is not null then
    perform tidegate.free_messages(v_held.queue, v_moved.kept, v_moved.visible);
  end if;
  return query select * from unnest(v_moved.ids, v_moved.statuses);
end;
$$;
