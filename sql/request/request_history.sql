-- request_history: After each statement, checks its transitions against `transition_rule`, counts them, and stores
-- those that the request rows do not contain (see `request_event`).
--
-- Reads only the new rows: the guard has put the previous status into each. (Joining old and new transition tables
-- costs five times the throughput: they have neither statistics nor an index.) Notes, too, whether a response is
-- awaited, what is known of the sends of a request that ended without an answer, and writes a delivery for each request
-- that ended and has a callback URL; so hand edits have all three.
--
-- Skipped while `tidegate.counted` is the id of the transaction: `claim_tx` makes only legal transitions, keeps them in
-- the rows, and counts them itself; but inside another trigger it leaves the count to this one, which cannot tell its
-- updates from those of that trigger.
create or replace function tidegate_internal.request_history()
  returns trigger language plpgsql as $$
declare
  -- With casts these are constants of the plan; without, each call would read the texts.
  v_ends     constant tidegate.request_status[] := '{completed,timed_out,failure}'::tidegate.request_status[];
  v_failed   constant tidegate.request_status[] := '{failure,timed_out}'::tidegate.request_status[];
  v_left     constant tidegate.request_status[] :=
    '{completed,timed_out,failure,receipt_received}'::tidegate.request_status[];
  v_in_row   constant text[] := '{claimed,receipt,response,threshold_reached,verdict_accepted}'::text[];
  v_steps    record;
  v_answered uuid[];
begin
  if current_setting('tidegate.counted', true) = pg_current_xact_id()::text and pg_trigger_depth() = 1 then
    return null;
  end if;

  -- One pass over all rows decides which of the other statements are needed.
  with step as materialized (
    select
      r.kind, r.flow, r.previous_status, r.req_status, r.cause, count(*) as requests, (array_agg(r.id))[1] as id,
      bool_or(tidegate_internal.entered_at(r.req_status, r.queued_at, r.processing_at, r.tx_in_flight_at,
        r.receipt_received_at, r.finished_at) is null) as undated
    from new_rows as r
    where r.previous_status is distinct from r.req_status
    group by r.kind, r.flow, r.previous_status, r.req_status, r.cause
  ), counted as (
    insert into tidegate.request_count_delta (kind, from_status, req_status, delta)
    select s.kind, s.previous_status, s.req_status, s.requests from step as s
  )
  select
    array_agg(s.previous_status) as old, array_agg(s.req_status) as new, bool_or(s.cause <> all(v_in_row)) as stored,
    min(format('request %s may not go from %s to %s (%s)', s.id, s.previous_status, s.req_status, s.cause))
      filter (where s.undated or not exists (
        select from tidegate.transition_rule as t
        where t.flow = s.flow and t.from_status = s.previous_status and t.to_status = s.req_status
          and s.cause in (t.cause, 'hand_edit')
      )) as illegal
  into v_steps
  from step as s;
  if v_steps.old is null then
    return null;
  elsif v_steps.illegal is not null then
    raise exception using errcode = 'TG001', message = v_steps.illegal,
      hint = 'select * from tidegate.transition_rule shows what is possible';
  end if;

  if v_steps.stored then
    insert into tidegate.stored_event (request_id, transition_no, from_status, to_status, at, attempt, cause, worker,
      detail)
    select
      r.id, r.transition_no, r.previous_status, r.req_status, tidegate_internal.entered_at(
        r.req_status, r.queued_at, r.processing_at, r.tx_in_flight_at, r.receipt_received_at, r.finished_at),
      case r.previous_status when 'queued' then r.readiness_attempt else r.tx_attempt end, r.cause, r.worker,
      case
        when r.cause = 'hand_edit' then jsonb_build_object('session_user', session_user)
        when r.cause = 'internal_error' then r.error || jsonb_strip_nulls(jsonb_build_object(
          'session_user', session_user, 'on_behalf_of', left(nullif(current_setting('tidegate.actor', true), ''), 200)
        ))
        when r.cause = 'verdict_rejected' then r.error - 'details'
        when r.req_status in ('failure', 'timed_out') or r.cause = 'send_retried' then r.error end
    from new_rows as r
    where r.previous_status is distinct from r.req_status and r.cause <> all(v_in_row);
  end if;

  if v_steps.new && v_ends then
    -- Durations, of a few also from their send, and the differences from the ETAs at submit.
    insert into tidegate.finish_sample (
      kind, requests, answer_ms, predicted, error_ms, error_abs_ms, error_bins, p90_stated, p90_held
    )
    select
      e.kind, count(*), (array_agg(e.answer_ms) filter (where e.answer_ms is not null))[1:8],
      count(e.error_ms), coalesce(sum(e.error_ms), 0), coalesce(sum(abs(e.error_ms)), 0),
      -- A bound belongs to its bin, as in Prometheus' histograms.
      array[
        count(*) filter (where e.error_ms <= -30000),
        count(*) filter (where e.error_ms > -30000 and e.error_ms <= -5000),
        count(*) filter (where e.error_ms > -5000 and e.error_ms <= -1000),
        count(*) filter (where e.error_ms > -1000 and e.error_ms <= 0),
        count(*) filter (where e.error_ms > 0 and e.error_ms <= 1000),
        count(*) filter (where e.error_ms > 1000 and e.error_ms <= 5000),
        count(*) filter (where e.error_ms > 5000 and e.error_ms <= 30000),
        count(*) filter (where e.error_ms > 30000)
      ],
      count(e.p90_held), count(*) filter (where e.p90_held)
    from (
      select
        r.kind, took.answer_ms, took.ms - 1000 * took.eta_seconds as error_ms, took.ms <= took.eta_p90_ms as p90_held
      from new_rows as r
      cross join lateral (
        select
          greatest(date_part('epoch', r.finished_at - r.submitted_at) * 1000, 0)::bigint as ms,
          case
            when r.tx_in_flight_at is not null and r.cause in ('receipt', 'response', 'threshold_reached',
              'verdict_accepted', 'verdict_rejected', 'rejected')
            then least(greatest(date_part('epoch', r.finished_at - r.tx_in_flight_at) * 1000, 0), 2147483647)::integer
          end as answer_ms,
          -- One without an answer is not compared with its ETA.
          case when r.req_status = 'completed' then r.eta_seconds::bigint end as eta_seconds,
          case when r.req_status = 'completed' then r.eta_p90_ms end as eta_p90_ms
      ) as took
      where r.req_status in ('completed', 'timed_out', 'failure') and r.previous_status <> r.req_status
      offset 0 -- computed once, not for each aggregate
    ) as e
    group by e.kind;

    if v_steps.new && v_failed then
      insert into tidegate.outcome (request_id, kind, executed, source, search_at)
      select
        r.id, r.kind, case when e.evidence is null then 'unknown' else 'yes' end, coalesce(e.evidence, 'attempts'),
        tidegate.clock() + interval '1 second'
      from new_rows as r
      cross join lateral (
        select case
          when r.tx_attempt > r.tx_unsent then tidegate_internal.evidence(r.id, r.error)
          -- A response contradicts a refusal, too.
          when exists (select from tidegate.response_inbox as i where i.request_id = r.id and i.part is null)
            then 'response'
        end
      ) as e(evidence)
      where r.req_status in ('failure', 'timed_out') and r.previous_status <> r.req_status
        and (r.tx_attempt > r.tx_unsent or e.evidence is not null)
      on conflict do nothing;
      -- A response may have come after the statement read what its error says.
      select array_agg(r.id) into v_answered
      from new_rows as r
      join tidegate.outcome as o on o.request_id = r.id and o.executed = 'yes'
      where r.req_status in ('failure', 'timed_out') and r.previous_status <> r.req_status
        and r.cause <> 'verdict_rejected' and r.error ->> 'message' not like '%; it was executed';
      if v_answered is not null then
        perform tidegate_internal.say_executed(v_answered, 'yes', 'response');
      end if;
    end if;

    -- Nothing here raises: an invalid URL, written by hand, fails its delivery and not the request.
    if exists (select from tidegate.kind as k where k.callback_url is not null)
      or exists (select from new_rows as r where r.callback_url is not null)
    then
      insert into tidegate.webhook_delivery (request_id, id, url, host_port, due_at)
      select r.id, tidegate_internal.uuid_v7(), u.url, coalesce(tidegate_internal.webhook_host_port(u.url), '?'),
        tidegate.clock()
      from new_rows as r
      join tidegate.kind as k on k.name = r.kind
      cross join lateral (select coalesce(r.callback_url, k.callback_url)) as u(url)
      where r.req_status in ('completed', 'timed_out', 'failure') and r.previous_status <> r.req_status
        and u.url is not null
      on conflict do nothing;
    end if;
  end if;

  -- In two steps, because an expression with a subquery runs as a statement.
  if v_steps.new && v_left and not v_steps.old <@ '{receipt_received}' then
    if exists (select from tidegate.gate as g where g.queue is null) then
      perform tidegate_internal.quota_leave(array(
        select r.id from new_rows as r
        where r.previous_status in ('queued', 'processing', 'tx_in_flight')
          and r.req_status not in ('queued', 'processing', 'tx_in_flight')
      ));
    end if;
  end if;
  if 'receipt_received' = any(v_steps.old) then
    delete from tidegate.awaiting_response as a
    where a.request_id = any(array(
      select r.id from new_rows as r where r.previous_status = 'receipt_received' and r.req_status <> 'receipt_received'
    ));
  end if;
  if 'receipt_received' = any(v_steps.new) then
    insert into tidegate.awaiting_response (request_id, due_at, kind, ask_at)
    select r.id, r.receipt_received_at + k.response_timeout, r.kind,
      case when r.flow = 'direct' then r.receipt_received_at + interval '1 second' end
    from new_rows as r
    join tidegate.kind as k on k.name = r.kind
    where r.req_status = 'receipt_received' and r.previous_status <> 'receipt_received'
    on conflict do nothing;
  end if;
  return null;
end;
$$;

create or replace trigger request_history_of_updates
  after update on tidegate.request
  referencing new table as new_rows
  for each statement execute function tidegate_internal.request_history();
