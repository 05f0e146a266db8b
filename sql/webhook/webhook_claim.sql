-- webhook_claim: For deliverers: claims deliveries that are due, under a lease, with their content.
--
-- At most `batch`, and at most the policy's `per_host` under way to one host in the whole fleet, so a slow host does
-- not hold up the others. Of hosts that are new, or have not answered when they were last called, at most `unproven`
-- deliveries, and one a host under way: hosts that never answer delay only each other, however many names they have.
-- Without `unproven` all hosts are alike. The lease is the policy's timeout and a while to settle; a deliverer that
-- dies loses it, and the delivery is made again under the same id. A delivery that is no longer allowed (host off the
-- list, no attempt left) ends here as failed. Empty: nothing is due, it has to wait for deliveries under way, or the
-- database is quarantined.
create or replace function tidegate.webhook_claim(batch integer, unproven integer default null)
  returns table (
    request_id uuid, id uuid, lease_token bigint, url text, host_port text, allow_private boolean, secrets text[],
    attempt integer, claimed_at timestamptz, lease_ms integer, timeout_ms integer, kind text,
    req_status tidegate.request_status, response jsonb, error jsonb, finished_at timestamptz,
    executed text, resolution jsonb, event text, host_answers boolean, traceparent text, begins_trace boolean
  )
  language plpgsql security definer as $$
#variable_conflict use_column
declare
  v_policy  tidegate.webhook_policy;
  v_now     timestamptz := tidegate.clock();
  v_hosts   text[];
  v_host    text;
  v_answers boolean;
  v_unproven integer := unproven;
  v_limit   integer;
  v_lease   interval;
  v_token   bigint := hashtextextended(gen_random_uuid()::text, 0);
  v_taken   uuid[];
  v_claimed uuid[] := '{}';
begin
  -- From host to host by the index: a backlog of one is one step. In no order, so that each has its turn.
  v_hosts := array(
    with recursive hosts as (
      (select d.host_port from tidegate.webhook_delivery as d where d.state = 'pending' order by d.host_port limit 1)
      union all
      select (
        select d.host_port from tidegate.webhook_delivery as d
        where d.state = 'pending' and d.host_port > h.host_port
        order by d.host_port
        limit 1
      )
      from hosts as h
      where h.host_port is not null
    )
    select h.host_port
    from hosts as h
    where exists (
      -- For each host by itself (`offset 0`): as a join it would read every delivery that is due.
      select from tidegate.webhook_delivery as d
      where d.state = 'pending' and d.host_port = h.host_port and d.due_at <= v_now
      offset 0
    )
    order by random()
  );
  if v_hosts = '{}' or batch < 1 or exists (select from tidegate.quarantine_state) then
    return;
  end if;

  -- Counting the deliveries under way and adding to them is one step.
  perform pg_advisory_xact_lock(hashtextextended('tidegate.webhook_claim', 0));
  select * into strict v_policy from tidegate.webhook_policy;
  v_lease := make_interval(secs => v_policy.timeout_ms / 1000.0 + 20);
  v_now := tidegate.clock();
  foreach v_host in array v_hosts loop
    v_answers := v_unproven is null
      or exists (select from tidegate.webhook_answer as a where a.host_port = v_host and a.answers);
    v_limit := batch - cardinality(v_claimed);
    exit when v_limit < 1;
    v_limit := least(v_limit, case when v_answers then v_policy.per_host else least(v_unproven, 1) end - (
      -- The time is no condition for an index here (`coalesce`): else that of those that wait would serve the count.
      select count(*) from tidegate.webhook_delivery as d
      where d.host_port = v_host and d.lease_token is not null and coalesce(d.due_at > v_now, false)
    ));
    continue when v_limit < 1;
    -- Materialized: a planner free to run a locking subquery again could lock more rows than the limit.
    with due as materialized (
      select d.request_id, d.url, d.attempt
      from tidegate.webhook_delivery as d
      where d.state = 'pending' and d.host_port = v_host and d.due_at <= v_now
      order by d.due_at
      limit v_limit
      for update skip locked
    ), judged as materialized (
      select
        due.request_id,
        coalesce(t.refusal, case when due.attempt >= v_policy.attempts then 'no attempt is left' end) as refusal
      from due
      cross join lateral tidegate_internal.webhook_target(due.url) as t
    ), claimed as (
      update tidegate.webhook_delivery as d
      set
        state = case when j.refusal is null then 'pending' else 'failed' end,
        attempt = d.attempt + (j.refusal is null)::integer, lease_token = case when j.refusal is null then v_token end,
        due_at = v_now + v_lease, last_error = coalesce(j.refusal, d.last_error),
        finished_at = case when j.refusal is not null then v_now end
      from judged as j
      where d.request_id = j.request_id
      returning d.request_id, d.state
    )
    select array_agg(c.request_id) into v_taken from claimed as c where c.state = 'pending';
    v_claimed := v_claimed || v_taken;
    if not v_answers then
      v_unproven := v_unproven - coalesce(cardinality(v_taken), 0);
    end if;
  end loop;

  return query
    select
      d.request_id, d.id, v_token, d.url, d.host_port, t.allow_private, s.secrets, d.attempt, v_now,
      (extract(epoch from v_lease) * 1000)::integer, v_policy.timeout_ms, r.kind, r.req_status, r.response, r.error,
      r.finished_at, tidegate.executed(r), tidegate.resolution(r), d.event,
      exists (select from tidegate.webhook_answer as a where a.host_port = d.host_port and a.answers), r.traceparent,
      case when r.traceparent is not null then tidegate_internal.begins_trace(r.id, d.attempt) end
    from tidegate.webhook_delivery as d
    join tidegate.request as r on r.id = d.request_id
    cross join lateral tidegate_internal.webhook_target(d.url) as t
    cross join lateral (select tidegate_internal.webhook_secrets(t.listed)) as s(secrets)
    where d.request_id = any(v_claimed);
end;
$$;
select tidegate_internal.plan_along_indexes('webhook_claim', 'hashjoin');
select tidegate_internal.allow('webhook_claim', '{node,admin}');
