-- request_entered: After each statement that inserts requests, counts them, and stores the events of those inserted by
-- hand.
--
-- Refuses all of them if one has another flow than its kind, enters where `transition_rule` lets none enter, or is
-- inserted as a submitted one and incomplete. The functions that submit are trusted to insert what is legal and to
-- count it: a setting of their own shows it.
create or replace function tidegate_internal.request_entered()
  returns trigger language plpgsql as $$
declare
  v_entered record;
begin
  with counted as (
    insert into tidegate.request_count_delta (kind, req_status, delta)
    select r.kind, r.req_status, count(*) from new_rows as r group by r.kind, r.req_status
  )
  select
    bool_and(r.cause = 'submitted') as submitted,
    min(format('request %s of kind %s, flow %s, may not go from (entry) to %s', r.id, r.kind, r.flow, r.req_status))
      filter (where r.transition_no <> 1 or r.previous_status is not null
        or case r.req_status when 'queued' then r.queued_at else r.processing_at end is null
        or not exists (
          select
          from tidegate.kind as k
          join tidegate.transition_rule as t on t.flow = k.flow
          where k.name = r.kind and k.flow = r.flow and t.from_status is null and t.to_status = r.req_status
        )) as illegal
  into v_entered
  from new_rows as r;
  if v_entered.illegal is not null then
    raise exception using errcode = 'TG001', message = v_entered.illegal,
      hint = 'submit it: select * from tidegate.submit(kind, payload)';
  end if;

  if not v_entered.submitted then
    insert into tidegate.stored_event (request_id, transition_no, to_status, at, attempt, cause, worker, detail)
    select
      r.id, r.transition_no, r.req_status, case r.req_status when 'queued' then r.queued_at else r.processing_at end,
      case r.req_status when 'queued' then r.readiness_attempt else r.tx_attempt end, r.cause, r.worker,
      jsonb_build_object('session_user', session_user)
    from new_rows as r
    where r.cause <> 'submitted';
  end if;
  return null;
end;
$$;

create or replace trigger request_history_of_inserts
  after insert on tidegate.request
  referencing new table as new_rows
  for each statement
  when (current_setting('tidegate.submits', true) is distinct from 'on')
  execute function tidegate_internal.request_entered();
