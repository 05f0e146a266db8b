-- audit_replay: Rebuilds the life of a request from its history and checks it against the invariants and each step
-- against the bounds; a sound step has no finding.
--
-- One row a step, in order, with `after`: how long after the submission. `finding` is null for a step that is as it
-- should be; `remark` names what is legal but unusual. Rows without a `transition_no` close the list: first the
-- figures of the whole, then one row for each finding about it. A life is sound when no row has a finding. Raises TG006
-- when there is no such request.
create or replace function tidegate.audit_replay(id uuid)
  returns table (
    transition_no integer, at timestamptz, after interval, from_status tidegate.request_status,
    to_status tidegate.request_status, cause text, attempt integer, worker text, detail jsonb, remark text, finding text
  )
  language plpgsql stable security definer
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_now     constant timestamptz := tidegate.clock();
  v_request tidegate.request;
  v_events  bigint;
begin
  select * into v_request from tidegate.request as r where r.id = audit_replay.id;
  if v_request.id is null then
    select count(*) into v_events from tidegate.request_event as e where e.request_id = audit_replay.id;
    raise exception using errcode = 'TG006',
      message = case
        when v_events > 0 then
          format('there is no request %s any more, only %s steps of its history', audit_replay.id, v_events)
        else format('there is no request %s', audit_replay.id)
      end;
  end if;

  return query
    with violations as materialized (
      select v.* from tidegate_internal.audit_violations(v_request.id, v_request.id) as v
    ), life as (
      select s.*, 1 as part from tidegate_internal.audit_steps(v_request, v_now) as s
      union all
      select null, null, null, null, null, null, null, w.detail, w.remark, w.finding, 2
      from tidegate_internal.audit_whole(v_request, v_now) as w
      union all
      select null, null, null, null, null, null, null, null, null, v.finding, 3
      from violations as v
      where v.transition_no is null
    )
    select
      l.transition_no, l.at, l.at - v_request.submitted_at, l.from_status, l.to_status, l.cause, l.attempt, l.worker,
      l.detail, l.remark, nullif(concat_ws('; ', v.finding, l.finding), '')
    from life as l
    left join violations as v on v.transition_no = l.transition_no
    order by l.part, l.transition_no;
end;
$$;
select tidegate_internal.allow('audit_replay', '{reader,admin}');
