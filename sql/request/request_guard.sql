-- request_guard: lets a request's row change only along `transition_rule`
--
-- What enters is checked by `request_entered`. A function announces its transition by raising transition_no by one and naming
-- the cause, and is checked with it; where it names the status before it and the time, too, the condition is the check (see
-- `build_request_guard`). Whatever else changes the status is a hand edit, checked on the two statuses alone and labelled
-- as one. The trigger keeps what history needs in the row itself (previous_status, transition_no, the time each state was
-- entered), so that the history trigger reads nothing but the new rows; and it stores the events that the row no longer tells
-- afterwards (see `request_event`).
create or replace function tidegate_internal.request_guard()
  returns trigger
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz;
begin
  if tg_op = 'DELETE' then
    if old.req_status not in ('completed', 'timed_out', 'failure') then
      raise exception using
        errcode = 'TG001',
        message = format('request %s is %s and may not be deleted', old.id, old.req_status),
        hint = 'cancel it first: select * from tidegate.cancel(id)';
    end if;
    perform tidegate_internal.store_history(old.id);
    return old;
  end if;

  if tg_op = 'INSERT' then
    new.previous_status := null;
    new.transition_no := 1;
    if new.cause is distinct from 'submitted' then
      new.cause := 'hand_edit';
    end if;
  else
    if (new.id, new.kind, new.flow) is distinct from (old.id, old.kind, old.flow) then
      raise exception using
        errcode = 'TG001',
        message = format('request %s keeps its id, kind and flow', old.id);
    end if;

    if (old.tx_in_flight_at is null and new.tx_in_flight_at is not null and new.req_status <> 'tx_in_flight')
      or (old.receipt_received_at is null and new.receipt_received_at is not null and new.req_status <> 'receipt_received')
      or (
        old.finished_at is null and new.finished_at is not null
        and new.req_status not in ('completed', 'timed_out', 'failure')
      )
    then
      raise exception using
        errcode = 'TG001',
        message = format('request %s is %s and may not be given the time of a status that it has not reached', old.id,
          new.req_status);
    end if;
    if new.submitted_at <> old.submitted_at
      or old.req_status not in ('queued', 'processing') and (
        new.req_status = 'processing'
        or (new.tx_in_flight_at, new.receipt_received_at, new.finished_at, new.tx_attempt, new.worker)
          is distinct from (old.tx_in_flight_at, old.receipt_received_at, old.finished_at, old.tx_attempt, old.worker)
      )
    then
      perform tidegate_internal.store_history(old.id);
    end if;

    new.previous_status := old.req_status;
    if new.req_status = old.req_status then
      new.transition_no := old.transition_no;
      new.cause := old.cause;
      return new;
    end if;

    if new.transition_no is distinct from old.transition_no + 1 then
      new.transition_no := old.transition_no + 1;
      new.cause := 'hand_edit';
    end if;
    if not exists (
      select
      from tidegate.transition_rule as t
      where t.flow = new.flow and t.from_status = old.req_status and t.to_status = new.req_status
        and (t.cause = new.cause or new.cause = 'hand_edit')
    ) then
      raise exception using
        errcode = 'TG001',
        message = format('request %s may not go from %s to %s (%s)', old.id, old.req_status, new.req_status, new.cause),
        hint = format('select * from tidegate.transition_rule where flow = %L', old.flow);
    end if;
  end if;

  v_now := tidegate.clock();
  case new.req_status
    when 'queued' then new.queued_at := v_now;
    when 'processing' then new.processing_at := v_now;
    when 'tx_in_flight' then new.tx_in_flight_at := v_now;
    when 'receipt_received' then new.receipt_received_at := v_now;
    else new.finished_at := v_now;
  end case;
  return new;
end;
$$;

create or replace trigger request_guard
  before delete on tidegate.request
  for each row
  execute function tidegate_internal.request_guard();

-- An entry that is announced in full needs no PL/pgSQL here; `request_entered` checks it with all of its statement.
create or replace trigger request_guard_of_inserts
  before insert on tidegate.request
  for each row
  when ((
    new.cause = 'submitted' and new.transition_no = 1 and new.previous_status is null
    and num_nonnulls(new.queued_at, new.processing_at, new.tx_in_flight_at, new.receipt_received_at, new.finished_at) = 1
    and case new.req_status when 'queued' then new.queued_at when 'processing' then new.processing_at end = new.submitted_at
    and isfinite(new.submitted_at)
  ) is not true)
  execute function tidegate_internal.request_guard();

create or replace function tidegate_internal.transition_rule_guard()
  returns trigger
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
begin
  perform tidegate_internal.build_request_guard();
  return null;
end;
$$;

-- For each row: `migrate` that changes no rule does not lock requests against writers here.
create or replace trigger transition_rule_guard
  after insert or update or delete on tidegate.transition_rule
  for each row
  execute function tidegate_internal.transition_rule_guard();

create or replace trigger transition_rule_guard_truncate
  after truncate on tidegate.transition_rule
  for each statement
  execute function tidegate_internal.transition_rule_guard();

select tidegate_internal.build_request_guard();

comment on function tidegate_internal.transition_rule_guard is
  'Trigger on transition_rule: the guard of requests goes by the rules as they are.';
comment on function tidegate_internal.request_guard is
  'Trigger on request: refuses what transition_rule does not allow (TG001), labels hand edits, sets the times.';
