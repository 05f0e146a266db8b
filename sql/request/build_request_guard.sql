-- build_request_guard: makes the trigger that calls `request_guard` for updates, except for those that announce a legal step
--
-- An update that names the status before it, the next number, a cause that a rule allows for this step, and the time at which it
-- enters the new status, needs no PL/pgSQL: the trigger's condition, an expression made of `transition_rule`, lets it pass. So
-- do updates that leave the status alone and say so. All others go to the guard, which refuses them or labels them as a hand
-- edit; so do updates that change what `request_event` reads from the row: steps back to a queue, edits of times. Built by
-- `migrate`, and whenever the rules change.
create or replace function tidegate_internal.build_request_guard()
  returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  set standard_conforming_strings = on
as $$
declare
  v_steps text;
begin
  select string_agg(
    format(
      'old.req_status = %L and new.req_status = %L and new.flow = any (%L::tidegate.flow[]) '
        'and new.cause = any (%L::text[]) and new.%I is distinct from old.%I',
      s.from_status, s.to_status, s.flows, s.causes, s.entered, s.entered
    ),
    ' or ' order by s.from_status, s.to_status, s.flows
  )
  into v_steps
  from (
    select
      r.from_status, r.to_status, r.flows, array_agg(r.cause order by r.cause) as causes,
      case when r.to_status in ('completed', 'timed_out', 'failure') then 'finished' else r.to_status::text end
        || '_at' as entered
    from (
      select t.from_status, t.to_status, t.cause, array_agg(t.flow order by t.flow) as flows
      from tidegate.transition_rule as t
      where t.from_status is not null and (t.from_status, t.to_status) <> ('tx_in_flight', 'processing')
      group by t.from_status, t.to_status, t.cause
    ) as r
    group by r.from_status, r.to_status, r.flows
  ) as s;
  execute format(
    $sql$
      create or replace trigger request_guard_of_updates
        before update on tidegate.request
        for each row
        when ((
          new.id = old.id and new.kind = old.kind and new.flow = old.flow and new.previous_status = old.req_status
          and new.submitted_at = old.submitted_at
          and (
            old.req_status in ('queued', 'processing')
            or (new.tx_attempt = old.tx_attempt and new.worker is not distinct from old.worker)
          )
          and case
            when new.req_status = old.req_status then
              new.transition_no = old.transition_no and new.cause = old.cause
              and new.tx_in_flight_at is not distinct from old.tx_in_flight_at
              and new.receipt_received_at is not distinct from old.receipt_received_at
              and new.finished_at is not distinct from old.finished_at
            else
              new.transition_no = old.transition_no + 1
              and (new.req_status = 'tx_in_flight' or new.tx_in_flight_at is not distinct from old.tx_in_flight_at)
              and (new.req_status = 'receipt_received' or new.receipt_received_at is not distinct from old.receipt_received_at)
              and (
                new.req_status in ('completed', 'timed_out', 'failure') or new.finished_at is not distinct from old.finished_at
              )
              and (%s)
          end
        ) is not true)
        execute function tidegate_internal.request_guard()
    $sql$,
    coalesce(v_steps, 'false')
  );
end;
$$;

comment on function tidegate_internal.build_request_guard is
  'Makes the trigger that guards updates of requests, with a condition that lets announced legal steps pass.';
