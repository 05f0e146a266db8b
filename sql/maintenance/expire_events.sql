-- expire_events: One batch of a maintenance duty: deletes events of gates, breakers and policies older than
-- `setting.event_retention`.
--
-- The latest of each gate, breaker and policy stays, whatever its age: epochs and versions go on counting from there.
-- So do the versions of policies that requests which are still kept may have been tried under: they are judged by them.
-- Returns how many it deleted. Null in the setting: none.
create or replace function tidegate.expire_events(batch integer default 1000)
  returns bigint language plpgsql security definer as $$
declare
  v_expired bigint;
begin
  with old as materialized (
    select 'gate' as subject, o.ctid
    from tidegate.gate_event as o
    where o.at < tidegate.clock() - (select s.event_retention from tidegate.setting as s)
      and exists (select from tidegate.gate_event as n where n.gate = o.gate and n.epoch > o.epoch)
    union all
    select 'breaker', o.ctid
    from tidegate.breaker_event as o
    where o.at < tidegate.clock() - (select s.event_retention from tidegate.setting as s)
      and exists (select from tidegate.breaker_event as n where n.kind = o.kind and n.stage = o.stage and n.id > o.id)
    union all
    -- A version may go once the one after it was in force before the oldest request that is kept could have begun.
    select 'policy', o.ctid
    from tidegate.setting as s
    cross join tidegate.policy_change as o
    left join tidegate.kind as k on k.name = o.kind
    where s.event_retention is not null and (k.name is null or k.retention is not null)
      and exists (
        select from tidegate.policy_change as n
        where n.kind = o.kind and n.stage = o.stage and n.version > o.version and n.at < tidegate.clock()
          - greatest(s.event_retention, k.retention + k.deadline + k.response_timeout + interval '24 hours')
      )
    limit expire_events.batch
  ), gates as (
    delete from tidegate.gate_event as e where e.ctid = any(array(select o.ctid from old as o where o.subject = 'gate'))
  ), breakers as (
    delete from tidegate.breaker_event as e
    where e.ctid = any(array(select o.ctid from old as o where o.subject = 'breaker'))
  ), policies as (
    delete from tidegate.policy_change as e
    where e.ctid = any(array(select o.ctid from old as o where o.subject = 'policy'))
  )
  select count(*) into v_expired from old;
  return v_expired;
end;
$$;
select tidegate_internal.allow('expire_events', '{api,worker,admin}');
