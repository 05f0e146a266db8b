-- request_entered: after each statement that inserts requests, records that they have entered, and counts them
create or replace function tidegate_internal.request_entered()
  returns trigger
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
begin
  insert into tidegate.request_event (request_id, transition_no, to_status, at, attempt, cause, worker, detail)
  select
    r.id, r.transition_no, r.req_status, case r.req_status when 'queued' then r.queued_at else r.processing_at end,
    case r.req_status when 'queued' then r.readiness_attempt else r.tx_attempt end, r.cause, r.worker,
    case when r.cause = 'hand_edit' then jsonb_build_object('session_user', session_user) end
  from new_rows as r;

  insert into tidegate.request_count_delta (kind, req_status, delta)
  select r.kind, r.req_status, count(*) from new_rows as r group by r.kind, r.req_status;
  return null;
end;
$$;

create or replace trigger request_history_of_inserts
  after insert on tidegate.request
  referencing new table as new_rows
  for each statement
  execute function tidegate_internal.request_entered();

comment on function tidegate_internal.request_entered is
  'Trigger on request: records that new requests have entered, and counts them.';
