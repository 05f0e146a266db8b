-- request_entry: Trigger on request: counts each request that is inserted by hand, and stores its event; refuses one
-- that is incomplete, has a history, or enters where `transition_rule` lets none enter (TG001).
--
-- After the insert, because `on conflict` or another trigger may prevent it. Skipped while `tidegate.counted` is the id
-- of the transaction: functions that submit insert legal rows and count them themselves.
create or replace function tidegate_internal.request_entry()
  returns trigger language plpgsql as $$
declare
  v_at constant timestamptz := case new.req_status when 'queued' then new.queued_at else new.processing_at end;
begin
  if new.transition_no <> 1 or new.previous_status is not null or new.cause not in ('submitted', 'hand_edit')
    or v_at is null or num_nonnulls(new.tx_in_flight_at, new.receipt_received_at, new.finished_at) > 0
    or not exists (
      select
      from tidegate.kind as k
      join tidegate.transition_rule as t on t.flow = k.flow
      where k.name = new.kind and k.flow = new.flow and t.from_status is null and t.to_status = new.req_status
    )
    or exists (
      select
      from tidegate.stored_event as e
      join tidegate.request as r on r.id = e.request_id
      where r.id = new.id and e.transition_no > r.transition_no
    )
  then
    raise exception using errcode = 'TG001',
      message = format('request %s of kind %s, flow %s, may not go from (entry) to %s', new.id, new.kind, new.flow,
        new.req_status),
      detail = 'a row that is inserted has the time of its status and of no later one, no previous status, the default '
        'transition_no, the default cause or "submitted", and an id that no request has had',
      hint = 'submit it: select * from tidegate.submit(kind, payload)';
  end if;

  insert into tidegate.request_count_delta (kind, req_status, delta) values (new.kind, new.req_status, 1);
  if new.cause = 'hand_edit' then
    insert into tidegate.stored_event (request_id, transition_no, to_status, at, attempt, cause, worker, detail)
    values (
      new.id, 1, new.req_status, v_at,
      case new.req_status when 'queued' then new.readiness_attempt else new.tx_attempt end, new.cause, new.worker,
      jsonb_build_object('session_user', session_user)
    );
  end if;
  return null;
end;
$$;

-- PostgreSQL parses a trigger's condition at each statement, so a submission has this trigger only.
create or replace trigger request_entry
  after insert on tidegate.request
  for each row when (current_setting('tidegate.counted', true) is distinct from pg_current_xact_id()::text)
  execute function tidegate_internal.request_entry();
