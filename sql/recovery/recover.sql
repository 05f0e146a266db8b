-- recover: tx_in_flight → processing for requests whose worker vanished, and a message for every live request without
-- one. One batch: call again with next_after.
--
-- One bounded batch a call: examines live requests with an id greater than `after`, in id order, until `batch` of them
-- seem to be lost or fifty times as many have been examined, and returns what it did and where to continue
-- (`next_after`, null at the end), because a function cannot commit. Locks only requests that seem to be lost. Safe to
-- repeat, at any time, while workers run.
--   reset      in flight, and its lease has run out or is gone: back to processing, claimable at once;
--              with at_most_once semantics it ends as outcome_unknown instead, and as cancelled when its
--              cancel was requested (`ended`). `reset_all` resets those
--              under a live lease too: for a fleet that is known to be down. Refused (TG007) while live leases
--              exist, unless `force`.
--   rebuilt    neither under a lease nor with a message in its stage's queue: gets one under its old number, so its
--              position is what it was; `renumbered` when that number belongs to another request by now.
--   counted    in a queue, and not counted by the quotas of their kind and submitter: counted again
-- Dropped queue tables are made again first (see `recover_storage`); gates close that the rebuilt messages have filled.
-- `dry_run` counts and changes nothing, and leaves out requests past a deadline: `recover_deadlines` ends those.
-- `run` is the record that counts it.
create or replace function tidegate.recover(
  batch integer default 1000, after uuid default null, dry_run boolean default false, kind text default null,
  reset_all boolean default false, force boolean default false, run bigint default null,
  out examined bigint, out reset bigint, out ended bigint, out rebuilt bigint, out renumbered bigint,
  out counted bigint, out ids uuid[], out next_after uuid
)
  language plpgsql security definer as $$
declare
  v_now    timestamptz;
  v_seen   record;
  v_state  record;
  v_claims tid[];
begin
  select 0, 0, 0, 0, 0, '{}' into reset, ended, rebuilt, renumbered, counted, ids;
  perform tidegate_internal.require_kind(recover.kind) where recover.kind is not null;

  if not dry_run then
    perform tidegate_internal.require_read_committed('recover');
    -- Only in the first batch: it counts the messages of each queue.
    perform tidegate.recover_storage(run => recover.run) where recover.after is null;
  end if;
  -- In every batch, because the fleet may come back between two.
  if reset_all and not force and not dry_run and exists (
    select from tidegate.queue as q where q.stage = 'tx' and tidegate_internal.held_count(q.name, tidegate.clock()) > 0
  ) then
    raise exception using errcode = 'TG007',
      message = 'workers hold requests under live leases, and resetting them could send them twice',
      hint = 'stop the fleet and wait for its leases to run out, or pass force => true (--force)';
  end if;

  v_seen := tidegate_internal.requests_missing_message(
    recover.after, recover.kind, batch, greatest(batch, least(50 * batch, 50000)), reset_all
  );
  examined := v_seen.examined;
  next_after := v_seen.next_after;
  if v_seen.ids is null then
    return;
  end if;

  -- One at a time, and not while a transaction locks several rows (see `lock_recovery_shared`): a message that another
  -- recovery has made may be claimed already.
  if not dry_run then
    perform pg_advisory_xact_lock(hashtextextended('tidegate.recover', 0));
    perform tidegate_internal.lock_messages(v_seen.queues, v_seen.msg_ids);
    -- A claim that is being extended is not lost: it is skipped.
    v_claims := array(
      select c.ctid
      from tidegate.claim as c
      where c.token = any(array(select r.lease from tidegate.request as r where r.id = any(v_seen.ids)))
      order by c.token, c.part
      for update skip locked
    );
    perform tidegate_internal.lock_requests(v_seen.ids, v_seen.queues, v_seen.msg_ids);
  end if;
  -- After the locks: a lease taken while they were waited for is a live one.
  v_now := tidegate.clock();

  -- Read again, in a statement after the locks. A message belongs to the request only if both name each other.
  -- A request that names another message by now has moved on, or another recovery was faster: it is skipped.
  for v_state in
    select
      d.queue, d.target_queue,
      array_agg(d.id order by d.msg_id, d.id) filter (where d.fate = 'lost') as reset_ids,
      array_agg(d.id order by d.id) filter (where d.fate in ('unknown', 'cancelled')) as ended_ids,
      array_agg(d.fate order by d.id) filter (where d.fate in ('unknown', 'cancelled')) as ended_fates,
      array_agg(d.id order by d.msg_id) filter (where d.fate = 'lost' and d.leased) as freed_ids,
      array_agg(d.msg_id order by d.msg_id) filter (where d.fate = 'lost' and d.leased) as freed,
      array_agg(d.msg_id order by d.msg_id) filter (where d.fate in ('unknown', 'cancelled') and d.waits) as done,
      array_agg(d.id order by d.msg_id, d.id) filter (where d.missing and d.fate in ('waits', 'lost')) as missing_ids,
      array_agg(d.msg_id order by d.msg_id, d.id)
        filter (where d.missing and d.fate in ('waits', 'lost')) as missing_msg_ids
    from (
      select
        r.id, r.queue, r.msg_id, t.target_queue, s.request_id is not null as waits,
        s.request_id is null and l.held is not null and r.queue is not distinct from t.target_queue as leased,
        case
          when r.req_status <> 'tx_in_flight' or (l.held and not recover.reset_all) then 'waits'
          when p.semantics = 'at_most_once'
            -- A lost send is subject to the policy of its start, too.
            or p.since > r.tx_in_flight_at
              and (tidegate_internal.policy_at(r.kind, 'tx', r.tx_in_flight_at)).semantics = 'at_most_once'
            then 'unknown'
          when r.cancel_requested_at is not null then 'cancelled'
          else 'lost'
        end as fate,
        (s.request_id is null and l.held is null) or r.queue is distinct from t.target_queue as missing
      from unnest(v_seen.ids, v_seen.queues, v_seen.msg_ids) as seen(id, queue, msg_id)
      join tidegate.request as r
        on r.id = seen.id and r.queue is not distinct from seen.queue and r.msg_id is not distinct from seen.msg_id
      join tidegate.kind as k on k.name = r.kind
      left join tidegate.queue as q on q.name = r.queue
      join tidegate.policy_in_force as p on p.kind = r.kind and p.stage = 'tx'
      cross join lateral (
        select case
          when q.stage = (case when r.req_status = 'queued' then 'readiness' else 'tx' end)::tidegate.stage then r.queue
          when r.req_status = 'queued' then k.readiness_queue
          else k.tx_queue
        end as target_queue
      ) as t
      left join tidegate_internal.messages_of(v_seen.queues, v_seen.msg_ids) as s
        on s.queue = r.queue and s.msg_id = r.msg_id and s.request_id = r.id
      cross join lateral (
        select bool_or(tidegate.is_held(c.until, c.lease_ms, v_now) or not (dry_run or c.ctid = any(v_claims))) as held
        from tidegate.claim as c
        where c.token = r.lease and c.queue = r.queue and r.id = any(c.ids)
      ) as l
      where r.req_status in ('queued', 'processing', 'tx_in_flight')
        and not (dry_run and exists (
          select
          from tidegate_internal.deadline_fate(
            r.id, r.req_status, r.readiness_deadline_at, r.deadline_at, v_now
          ) as f(fate)
          where f.fate <> 'undated'
        ))
    ) as d
    where d.fate <> 'waits' or d.missing
    group by d.queue, d.target_queue
    -- Queues with messages to delete come last, see recover_queue.
    order by d.target_queue, d.queue nulls first
  loop
    reset := reset + coalesce(cardinality(v_state.reset_ids), 0);
    ended := ended + coalesce(cardinality(v_state.ended_ids), 0);
    rebuilt := rebuilt + coalesce(cardinality(v_state.missing_ids), 0);
    ids := ids || array(
      select distinct affected.id
      from unnest(v_state.reset_ids || v_state.ended_ids || v_state.missing_ids) as affected(id)
    );
    if not dry_run then
      renumbered := renumbered + tidegate_internal.recover_queue(
        p_queue => v_state.queue, p_target_queue => v_state.target_queue, p_reset_ids => v_state.reset_ids,
        p_freed_ids => v_state.freed_ids, p_freed => v_state.freed, p_missing_ids => v_state.missing_ids,
        p_missing_msg_ids => v_state.missing_msg_ids, p_ended_ids => v_state.ended_ids,
        p_ended_fates => v_state.ended_fates, p_done => v_state.done
      );
    end if;
  end loop;

  -- Not the requests that another transaction is ending.
  if exists (select from tidegate.gate as g where g.queue is null) then
    with missing as materialized (
      select g.name as gate, r.id
      from tidegate.request as r
      join tidegate.gate as g on g.kind = r.kind or g.submitter = r.submitter
      where r.id = any(v_seen.ids) and r.req_status in ('queued', 'processing', 'tx_in_flight')
        and not exists (select from tidegate.quota_usage as m where m.gate = g.name and m.request_id = r.id)
    ), there as materialized (
      select r.id
      from tidegate.request as r
      where r.id = any(array(select m.id from missing as m)) and not dry_run
        and r.req_status in ('queued', 'processing', 'tx_in_flight')
      for share skip locked
    ), entered as (
      insert into tidegate.quota_usage (gate, request_id)
      select m.gate, m.id from missing as m join there as t on t.id = m.id
      on conflict do nothing
    )
    select count(distinct m.id), recover.ids || array(select m.id from missing as m except select unnest(recover.ids))
    into counted, ids
    from missing as m;
  end if;

  if not dry_run then
    perform tidegate_internal.gate_evaluate(g.name, 'accepting')
    from (select g.name from tidegate.gate as g where rebuilt + counted > 0 order by g.name) as g;
    perform tidegate_internal.record_recovery(run, jsonb_build_object(
      'reset', reset, 'ended', ended, 'rebuilt', rebuilt, 'renumbered', renumbered, 'counted', counted
    ));
  end if;
end;
$$;
select tidegate_internal.plan_along_indexes('recover');
select tidegate_internal.allow('recover', '{admin}');
