-- expire_events: One batch of a maintenance duty: deletes events of gates, breakers and policies older than
-- `setting.event_retention`.
--
-- The latest of each gate, breaker and policy stays, whatever its age: epochs and versions go on counting from there.
-- So do the versions of policies that requests which are still kept may have been tried under: they are judged by them.
-- Returns how many it deleted. Null in the setting: none.
create or replace function tidegate.expire_events(batch integer default 1000)
  returns bigint language plpgsql security definer as $$
declare
  v_kept constant interval := (select s.event_retention from tidegate.setting as s);
  v_now  constant timestamptz := tidegate.clock();
  v_one  bigint;
  v_all  bigint := 0;
begin
  if v_kept is null then
    return 0;
  end if;

  delete from tidegate.gate_event as e
  where (e.gate, e.epoch) in (
    select o.gate, o.epoch
    from tidegate.gate_event as o
    where o.at < v_now - v_kept
      and exists (select from tidegate.gate_event as n where n.gate = o.gate and n.epoch > o.epoch)
    order by o.gate, o.epoch
    limit batch
  );
  get diagnostics v_one = row_count;
  v_all := v_all + v_one;

  delete from tidegate.breaker_event as e
  where e.id = any(array(
    select o.id
    from tidegate.breaker_event as o
    where o.at < v_now - v_kept
      and exists (select from tidegate.breaker_event as n where n.kind = o.kind and n.stage = o.stage and n.id > o.id)
    order by o.id
    limit batch - v_all
  ));
  get diagnostics v_one = row_count;
  v_all := v_all + v_one;

  -- A version may go once the one after it was in force before the oldest request that is kept could have begun.
  delete from tidegate.policy_change as c
  where c.id = any(array(
    select o.id
    from tidegate.policy_change as o
    left join tidegate.kind as k on k.name = o.kind
    where (k.name is null or k.retention is not null)
      and exists (
        select from tidegate.policy_change as n
        where n.kind = o.kind and n.stage = o.stage and n.version > o.version
          and n.at < v_now - greatest(v_kept, k.retention + k.deadline + k.response_timeout + interval '1 day')
      )
    order by o.id
    limit batch - v_all
  ));
  get diagnostics v_one = row_count;
  return v_all + v_one;
end;
$$;
select tidegate_internal.allow('expire_events', '{api,worker,admin}');
