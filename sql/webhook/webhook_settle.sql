-- webhook_settle: For deliverers: records the outcome of one attempt; returns the delivery's state, or null when the
-- lease was lost.
--
-- `outcome`: delivered; refused (never again); retry (again after a wait, or failed when that was the last attempt);
-- unsent (nothing was sent: the attempt is given back). The wait is random up to the policy's backoff, and not below
-- `wait`, the receiver's Retry-After, up to the policy's cap. When the lease was lost, another deliverer has it and
-- nothing changes.
create or replace function tidegate.webhook_settle(
  request_id uuid, lease_token bigint, outcome text, status integer default null, error text default null,
  wait interval default null
)
  returns text language plpgsql security definer as $$
declare
  v_policy tidegate.webhook_policy;
  v_now    timestamptz := tidegate.clock();
  v_state  text;
  v_host   text;
begin
  if outcome is null or outcome not in ('delivered', 'refused', 'retry', 'unsent') then
    raise exception using errcode = 'TG007',
      message = format('an outcome is ''delivered'', ''refused'', ''retry'' or ''unsent'', not %L', outcome);
  end if;
  select * into strict v_policy from tidegate.webhook_policy;

  update tidegate.webhook_delivery as d
  set
    state = s.state, attempt = d.attempt - (webhook_settle.outcome = 'unsent')::integer, lease_token = null,
    due_at = case webhook_settle.outcome
      when 'retry' then v_now + greatest(
        random() * tidegate_internal.backoff(d.attempt, v_policy.base_ms, v_policy.factor, v_policy.cap_ms, 0, 0),
        case when webhook_settle.wait is not null then
          least(webhook_settle.wait, make_interval(secs => v_policy.cap_ms / 1000.0))
        end
      )
      else v_now
    end,
    last_status = case webhook_settle.outcome when 'unsent' then d.last_status else webhook_settle.status end,
    last_error = case webhook_settle.outcome
      when 'unsent' then d.last_error
      when 'delivered' then null
      else left(webhook_settle.error, 500)
    end,
    finished_at = case when s.state <> 'pending' then v_now end
  from (
    select h.request_id, case
      when webhook_settle.outcome = 'delivered' then 'delivered'
      when webhook_settle.outcome = 'refused' then 'failed'
      when webhook_settle.outcome = 'retry' and h.attempt >= v_policy.attempts then 'failed'
      else 'pending'
    end as state
    from tidegate.webhook_delivery as h
    where h.request_id = webhook_settle.request_id
  ) as s
  where d.request_id = s.request_id and d.lease_token = webhook_settle.lease_token
  returning d.state, d.host_port into v_state, v_host;
  -- `webhook_claim` goes by whether a host answers, whatever.
  if v_state is not null and webhook_settle.outcome <> 'unsent' and not exists (
    select
    from tidegate.webhook_answer as a
    where a.host_port = v_host and a.answers = (webhook_settle.status is not null)
      and a.at > v_now - interval '1 minute'
  ) then
    insert into tidegate.webhook_answer as a (host_port, answers, at)
    values (v_host, webhook_settle.status is not null, v_now)
    on conflict (host_port) do update set answers = excluded.answers, at = excluded.at;
  end if;
  return v_state;
end;
$$;
select tidegate_internal.allow('webhook_settle', '{node,admin}');
