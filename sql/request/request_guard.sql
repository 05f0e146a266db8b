-- request_guard: Trigger on request: labels hand edits, sets the times, stores events that the row no longer contains;
-- refuses impossible edits (TG001).
--
-- Legality is checked after the statement (`request_history`). A function declares its transition: it increments
-- transition_no and sets previous_status, the cause and, for a step forward, the time of the new status. Any other
-- change of status is a hand edit, and gets that cause. Updates that many callers wait for, and that only move requests
-- forward or keep their status, skip the guard, and so does the deletion of ended requests with their history: for the
-- time of the statement `tidegate.declared` is the id of the transaction. The guard sets previous_status,
-- transition_no and the time of the new status, so that the history trigger reads only the new rows. It also stores the
-- events that the update overwrites in the row (see `request_event`). Inserts have a trigger of their own,
-- `request_entry`.
create or replace function tidegate_internal.request_guard()
  returns trigger language plpgsql as $$
declare
  v_now timestamptz;
begin
  if tg_op = 'DELETE' then
    if old.req_status not in ('completed', 'timed_out', 'failure') then
      raise exception using errcode = 'TG001',
        message = format('request %s is %s and may not be deleted', old.id, old.req_status),
        hint = 'cancel it first: select * from tidegate.cancel(id)';
    end if;
    perform tidegate_internal.store_history(old.id);
    return old;
  end if;

  if (new.id, new.kind, new.flow) is distinct from (old.id, old.kind, old.flow) then
    raise exception using errcode = 'TG001', message = format('request %s keeps its id, kind and flow', old.id);
  end if;
  if (old.tx_in_flight_at is null and new.tx_in_flight_at is not null and new.req_status <> 'tx_in_flight')
    or (old.receipt_received_at is null and new.receipt_received_at is not null
      and new.req_status <> 'receipt_received')
    or (
      old.finished_at is null and new.finished_at is not null
      and new.req_status not in ('completed', 'timed_out', 'failure')
    )
  then
    raise exception using errcode = 'TG001',
      message = format('request %s is %s and may not be given the time of a status that it has not reached', old.id,
        new.req_status);
  end if;
  if new.transition_no = old.transition_no + 1 and new.previous_status = old.req_status
    and new.req_status > old.req_status and new.submitted_at = old.submitted_at
    and (
      new.req_status <= 'tx_in_flight' or (new.worker, new.tx_attempt, new.tx_in_flight_at)
        is not distinct from (old.worker, old.tx_attempt, old.tx_in_flight_at)
    )
    and (new.req_status <= 'receipt_received' or new.receipt_received_at is not distinct from old.receipt_received_at)
  then
    return new;
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

-- PostgreSQL parses a trigger's condition at each statement, so these are short. The depth is that of the triggers
-- under way: an update by a trigger of the application is made while the function that fired it has the setting.
create or replace trigger request_guard
  before delete on tidegate.request
  for each row
  when (
    current_setting('tidegate.declared', true) is distinct from pg_current_xact_id()::text or pg_trigger_depth() > 0
  )
  execute function tidegate_internal.request_guard();

create or replace trigger request_guard_of_updates
  before update on tidegate.request
  for each row
  when (
    current_setting('tidegate.declared', true) is distinct from pg_current_xact_id()::text or pg_trigger_depth() > 0
  )
  execute function tidegate_internal.request_guard();
