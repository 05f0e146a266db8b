-- request_entry: Trigger on request: counts each request that is inserted by hand, stores its event and sets the time
-- of its status; refuses one that enters where `transition_rule` lets none enter (TG001).
--
-- A row with the cause `submitted` stays as it is and must be complete. After the insert, because `on conflict` or
-- another trigger may prevent it. Skipped under `tidegate.announced = counted`: functions that submit insert legal rows
-- and count them themselves.
create or replace function tidegate_internal.request_entry()
  returns trigger language plpgsql
  set tidegate.announced = ''
as $$
declare
  v_at timestamptz := case new.req_status when 'queued' then new.queued_at else new.processing_at end;
begin
  if new.cause = 'hand_edit' then
    v_at := tidegate.clock();
  end if;
  if new.transition_no <> 1 or new.previous_status is not null or new.cause not in ('submitted', 'hand_edit')
    or v_at is null or num_nonnulls(new.tx_in_flight_at, new.receipt_received_at, new.finished_at) > 0
    or not exists (
      select
      from tidegate.kind as k
      join tidegate.transition_rule as t on t.flow = k.flow
      where k.name = new.kind and k.flow = new.flow and t.from_status is null and t.to_status = new.req_status
    )
  then
    raise exception using errcode = 'TG001',
      message = format('request %s of kind %s, flow %s, may not go from (entry) to %s', new.id, new.kind, new.flow,
        new.req_status),
      hint = 'submit it: select * from tidegate.submit(kind, payload)',
      detail = 'a request that is inserted has no previous status, no transition but this one, no time of a later '
        'status, and the cause "hand_edit"';
  end if;

  insert into tidegate.request_count_delta (kind, req_status, delta) values (new.kind, new.req_status, 1);
  if new.cause = 'hand_edit' then
    update tidegate.request as r
    set
      queued_at = case new.req_status when 'queued' then v_at else r.queued_at end,
      processing_at = case new.req_status when 'processing' then v_at else r.processing_at end
    -- Another trigger may have moved it on.
    where r.id = new.id and r.transition_no = 1;
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
  for each row when (current_setting('tidegate.announced', true) is distinct from 'counted')
  execute function tidegate_internal.request_entry();
