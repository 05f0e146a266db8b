-- request_entry: Trigger on request: completes each request that is inserted by hand, labels it, counts it and stores
-- its event; refuses one that enters where `transition_rule` lets none enter (TG001).
--
-- A row that is inserted as a submitted one keeps what it says, and has to be complete. The functions that submit
-- insert what is legal and count it themselves: a setting of their own shows it.
create or replace function tidegate_internal.request_entry()
  returns trigger language plpgsql as $$
declare
  v_at timestamptz;
begin
  if new.cause <> 'submitted' then
    new.previous_status := null;
    new.transition_no := 1;
    new.cause := 'hand_edit';
    v_at := tidegate.clock();
    if new.req_status = 'queued' then
      new.queued_at := v_at;
    else
      new.processing_at := v_at;
    end if;
  end if;

  -- A null status is left to its constraint.
  if new.transition_no <> 1 or new.previous_status is not null
    or (case new.req_status when 'queued' then new.queued_at else new.processing_at end) is null
    or new.req_status is not null and not exists (
      select
      from tidegate.kind as k
      join tidegate.transition_rule as t on t.flow = k.flow
      where k.name = new.kind and k.flow = new.flow and t.from_status is null and t.to_status = new.req_status
    )
  then
    raise exception using errcode = 'TG001',
      message = format('request %s of kind %s, flow %s, may not go from (entry) to %s', new.id, new.kind, new.flow,
        new.req_status),
      hint = 'submit it: select * from tidegate.submit(kind, payload)';
  end if;

  -- With `on conflict do nothing`, a request that is there already is not inserted.
  perform pg_advisory_xact_lock(hashtextextended('tidegate.request_entry', 0));
  if exists (select from tidegate.request as r where r.id = new.id) then
    return new;
  end if;
  insert into tidegate.request_count_delta (kind, req_status, delta) values (new.kind, new.req_status, 1);
  if v_at is not null then
    insert into tidegate.stored_event (request_id, transition_no, to_status, at, attempt, cause, worker, detail)
    values (
      new.id, 1, new.req_status, v_at,
      case new.req_status when 'queued' then new.readiness_attempt else new.tx_attempt end, new.cause, new.worker,
      jsonb_build_object('session_user', session_user)
    );
  end if;
  return new;
end;
$$;

-- PostgreSQL reads a condition anew at each statement: this is the only trigger that a submission has.
create or replace trigger request_entry
  before insert on tidegate.request
  for each row
  when (current_setting('tidegate.announced', true) is distinct from 'counted')
  execute function tidegate_internal.request_entry();
