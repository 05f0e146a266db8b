-- webhook_settle_many: For deliverers: records the outcomes of up to 1000 attempts; a row for each, in their order,
-- with the delivery's state.
--
-- The state is null when the lease was lost: another deliverer has the delivery, and nothing changes. It is locked when
-- another transaction holds the delivery, so that this one waits for none; `webhook_settle` does.
-- `outcomes`: delivered; refused (never again); retry (again after a wait, or failed when that was the last attempt);
-- unsent (nothing was sent: the attempt is given back). The wait is random up to the policy's backoff, and not below
-- that of `waits_ms`, the receiver's Retry-After, up to the policy's cap.
create or replace function tidegate.webhook_settle_many(
  request_ids uuid[], nonces bigint[], outcomes text[], statuses integer[] default null, errors text[] default null,
  waits_ms bigint[] default null
)
  returns table (request_id uuid, state text) language plpgsql security definer as $$
#variable_conflict use_column
declare
  v_count  constant integer := coalesce(cardinality(request_ids), 0);
  v_policy tidegate.webhook_policy;
  v_now    timestamptz := tidegate.clock();
begin
  if (
    v_count <= 1000 and coalesce(cardinality(nonces), 0) = v_count and coalesce(cardinality(outcomes), 0) = v_count
    and coalesce(cardinality(statuses), v_count) = v_count and coalesce(cardinality(errors), v_count) = v_count
    and coalesce(cardinality(waits_ms), v_count) = v_count
  ) is not true then
    raise exception using errcode = 'TG007',
      message = format('%s attempts: at most 1000, and each with a nonce and an outcome', v_count);
  end if;
  if not outcomes <@ array['delivered', 'refused', 'retry', 'unsent'] or array_position(outcomes, null) is not null then
    raise exception using errcode = 'TG007', message = format(
      'an outcome is ''delivered'', ''refused'', ''retry'' or ''unsent'', not %L',
      (select o from unnest(outcomes) as o where o in ('delivered', 'refused', 'retry', 'unsent') is not true limit 1)
    );
  end if;
  select * into strict v_policy from tidegate.webhook_policy;

  return query
    -- Materialized: each row is locked and settled once.
    with attempted as materialized (
      select a.*
      from unnest(request_ids, nonces, outcomes, statuses, errors, waits_ms)
        with ordinality as a(request_id, nonce, outcome, status, error, wait_ms, place)
    ), held as materialized (
      select
        a.*, d.host_port,
        case
          when a.outcome = 'delivered' then 'delivered'
          when a.outcome = 'refused' or (a.outcome = 'retry' and d.attempt >= v_policy.attempts) then 'failed'
          else 'pending'
        end as state
      from attempted as a
      join tidegate.webhook_delivery as d on d.request_id = a.request_id and d.nonce = a.nonce
      order by a.request_id
      for no key update of d skip locked
    ), settled as (
      update tidegate.webhook_delivery as d
      set
        state = h.state, attempt = d.attempt - (h.outcome = 'unsent')::integer, nonce = null,
        due_at = case h.outcome
          when 'retry' then v_now + greatest(
            random() * tidegate_internal.backoff(d.attempt, v_policy.base_ms, v_policy.factor, v_policy.cap_ms, 0, 0),
            case when h.wait_ms is not null then make_interval(secs => least(h.wait_ms, v_policy.cap_ms) / 1000.0) end
          )
          else v_now
        end,
        last_status = case h.outcome when 'unsent' then d.last_status else h.status end,
        last_error = case h.outcome
          when 'unsent' then d.last_error
          when 'delivered' then null
          else left(h.error, 500)
        end,
        finished_at = case when h.state <> 'pending' then v_now end
      from held as h
      where d.request_id = h.request_id and d.nonce = h.nonce
      returning h.place, d.state
    ), answered as (
      -- `webhook_claim` goes by whether a host answers, whatever.
      insert into tidegate.webhook_answer as w (host_port, answers, at)
      select n.host_port, n.answers, v_now
      from (
        select distinct on (h.host_port) h.host_port, h.status is not null as answers
        from held as h
        where h.outcome <> 'unsent'
        order by h.host_port, h.place desc
      ) as n
      where not exists (
        select
        from tidegate.webhook_answer as a
        where a.host_port = n.host_port and a.answers = n.answers and a.at > v_now - interval '1 minute'
      )
      on conflict (host_port) do update set answers = excluded.answers, at = excluded.at
    )
    select
      a.request_id,
      case
        when s.state is not null then s.state
        -- Another transaction may have taken the lease away meanwhile: then `webhook_settle` finds out.
        when exists (
          select from tidegate.webhook_delivery as d where d.request_id = a.request_id and d.nonce = a.nonce
        ) then 'locked'
      end
    from attempted as a
    left join settled as s on s.place = a.place
    order by a.place;
end;
$$;
select tidegate_internal.plan_along_indexes('webhook_settle_many');
select tidegate_internal.allow('webhook_settle_many', '{node,admin}');
