-- recover_deadlines: One batch: ends live requests past their deadline, and gives a deadline to those without one;
-- continues at next_after.
--
-- Finds what no sweep will: sweeps visit each row about once, by indexes, and a row that came back with a backup, or
-- lost the note that its response is awaited, is behind them. One bounded batch a call: examines live requests with an
-- id greater than `after`, in id order, until `batch` of them are late or fifty times as many have been examined, and
-- returns what it did and where to continue (`next_after`, null at the end). Safe to repeat, at any time, while
-- workers run.
--   expired    past its deadline: timed_out or failure, as a sweep would have ended it
--   dated      queued without a readiness deadline, or awaiting a response without one: has its kind's, from then
-- `dry_run` counts and changes nothing. `run` is the record that counts it.
create or replace function tidegate.recover_deadlines(
  batch integer default 1000, after uuid default null, dry_run boolean default false, kind text default null,
  run bigint default null,
  out examined bigint, out expired bigint, out dated bigint, out ids uuid[], out next_after uuid
)
  language plpgsql security definer as $$
declare
  v_now    timestamptz := tidegate.clock();
  v_live   uuid[];
  v_window integer := greatest(batch, least(50 * batch, 50000));
  v_found  record;
begin
  select 0, 0, '{}' into expired, dated, ids;
  perform tidegate_internal.require_kind(recover_deadlines.kind) where recover_deadlines.kind is not null;
  if not dry_run then
    -- In the first batch only: it counts every queue, and voids the marks of their kinds.
    perform tidegate.recover_storage(run => recover_deadlines.run) where recover_deadlines.after is null;
    perform tidegate_internal.lock_recovery_shared(); -- as every transaction that ends several requests
  end if;

  -- First how far this batch goes: requests that end meanwhile must not make it skip others.
  v_live := array(
    select r.id
    from tidegate.request as r
    where r.id > coalesce(recover_deadlines.after, '00000000-0000-0000-0000-000000000000')
      and r.req_status in ('queued', 'processing', 'tx_in_flight', 'receipt_received')
      and (recover_deadlines.kind is null or r.kind = recover_deadlines.kind)
    order by r.id
    limit v_window
  );

  -- The inner query is not flattened (`offset 0`), so that the limit ends it row by row.
  select array_agg(l.id order by l.id) as ids, array_agg(l.queue order by l.id) as queues,
    array_agg(l.msg_id order by l.id) as msg_ids, count(*) filter (where l.fate = 'undated') as undated
  into v_found
  from (
    select r.id, r.queue, r.msg_id, f.fate
    from (
      select r.id, r.req_status, r.queue, r.msg_id, r.readiness_deadline_at, r.deadline_at
      from tidegate.request as r
      where r.id >= v_live[1] and r.id <= v_live[cardinality(v_live)]
        and r.req_status in ('queued', 'processing', 'tx_in_flight', 'receipt_received')
        and (recover_deadlines.kind is null or r.kind = recover_deadlines.kind)
      order by r.id
      offset 0
    ) as r
    cross join lateral tidegate_internal.deadline_fate(
      r.id, r.req_status, r.readiness_deadline_at, r.deadline_at, v_now
    ) as f(fate)
    where f.fate is not null
    order by r.id
    limit batch
  ) as l;
  next_after := case when cardinality(v_found.ids) = batch then v_found.ids[batch] else v_live[v_window] end;
  examined := case when next_after is null then cardinality(v_live) else array_position(v_live, next_after) end;
  if v_found.ids is null then
    return;
  end if;
  if dry_run then
    ids := v_found.ids;
    dated := v_found.undated;
    expired := cardinality(ids) - dated;
    return;
  end if;

  -- All messages before any row, then all rows and all usage of quotas in one order, because a sweep or a new quota may
  -- come the other way; then the fates are evaluated again.
  perform tidegate_internal.lock_messages(v_found.queues, v_found.msg_ids);
  perform tidegate_internal.lock_requests(v_found.ids, v_found.queues, v_found.msg_ids);
  perform from (
    select
    from tidegate.quota_usage as u
    where u.request_id = any(v_found.ids)
    order by u.request_id
    for update
  ) as locked;
  select
    array_agg(r.id) as ids, array_agg(f.fate) as fates, array_agg(r.id) filter (where f.fate = 'undated') as undated
  into v_found
  from unnest(v_found.ids, v_found.queues, v_found.msg_ids) as s(id, queue, msg_id)
  join tidegate.request as r
    on r.id = s.id and r.queue is not distinct from s.queue and r.msg_id is not distinct from s.msg_id
  cross join lateral tidegate_internal.deadline_fate(
    r.id, r.req_status, r.readiness_deadline_at, r.deadline_at, v_now
  ) as f(fate);

  with ready as (
    update tidegate.request as r
    set readiness_deadline_at = least(coalesce(r.queued_at, v_now) + k.readiness_timeout, r.deadline_at)
    from tidegate.kind as k
    where r.id = any(v_found.undated) and r.req_status = 'queued' and k.name = r.kind
    returning r.id
  ), awaiting as (
    insert into tidegate.awaiting_response (request_id, due_at, kind, ask_at)
    select r.id, coalesce(r.receipt_received_at, v_now) + k.response_timeout, r.kind,
      case when r.flow = 'direct' then v_now end
    from tidegate.request as r join tidegate.kind as k on k.name = r.kind
    where r.id = any(v_found.undated) and r.req_status = 'receipt_received'
    on conflict do nothing returning request_id
  )
  select array(select r.id from ready as r union all select a.request_id from awaiting as a) into ids;
  dated := cardinality(ids);

  ids := array(
    select i from unnest(ids) as i
    union all
    select e.id
    from unnest('{unready,overdue,unanswered}'::text[]) as f(fate)
    cross join lateral tidegate_internal.end_expired(
      array(select l.id from unnest(v_found.ids, v_found.fates) as l(id, fate) where l.fate = f.fate), f.fate, true
    ) as e
    order by 1
  );
  expired := cardinality(ids) - dated;
  perform tidegate_internal.record_recovery(run, jsonb_build_object('expired', expired, 'dated', dated));
end;
$$;
select tidegate_internal.allow('recover_deadlines', '{admin}');
select tidegate_internal.plan_along_indexes('recover_deadlines');
