-- request_removal: Trigger on request: what belongs to a removed request goes with it; refused are a truncate, and the
-- removal of a request that an idempotency key stands for (TG001).
create or replace function tidegate_internal.request_removal()
  returns trigger language plpgsql as $$
declare
  v_kept record;
begin
  if tg_op = 'TRUNCATE' then
    raise exception using errcode = 'TG001',
      message = 'tidegate.request may not be truncated: live requests would be lost',
      hint = 'delete finished requests instead';
  end if;

  -- All keys are read, but only when retention would not delete these requests yet.
  if exists (
    select
    -- Once for each kind, not for each request.
    from (
      select k.name, k.key_after_unknown, tidegate_internal.longest_window(k.name) as longest
      from tidegate.kind as k
      where k.name in (select i.kind from old_rows as i)
      offset 0
    ) as k
    join old_rows as o on o.kind = k.name
    where tidegate_internal.window_end(o.finished_at, k.longest) > tidegate.clock()
      or k.key_after_unknown = 'resolved' and (
        select u.executed from tidegate.outcome as u where u.request_id = o.id
      ) = 'unknown'
      or exists (
        select from tidegate.redrive as v join tidegate.request as n on n.id = v.redriven_as where v.request_id = o.id
      )
  ) then
    -- A key leads from the request that it was accepted with to those that it was redriven as.
    with recursive ancestor(id) as (
      select o.id from old_rows as o
      union
      select v.request_id from ancestor as a join tidegate.redrive as v on v.redriven_as = a.id
    ), lineage(first, id) as (
      select a.id, a.id from ancestor as a
      union
      select l.first, v.redriven_as from lineage as l join tidegate.redrive as v on v.request_id = l.id
    )
    select l.id, d.key into v_kept
    from tidegate.dedup as d
    join lineage as l on l.first = d.request_id
    join (
      select o.id, row(o.*)::tidegate.request as request from old_rows as o
      union all
      select r.id, r from tidegate.request as r where r.id in (select l.id from lineage as l)
    ) as m on m.id = l.id
    where tidegate_internal.key_stands(m.request, d, tidegate.clock())
    limit 1;
    if found then
      raise exception using errcode = 'TG001',
        message = format('idempotency key "%s" stands for request %s, and may not lose it', v_kept.key, v_kept.id),
        hint = 'a repeated submission would be sent again; when that may be, delete the key from tidegate.dedup first';
    end if;
  end if;

  delete from tidegate.outcome as u where u.request_id = any(array(select id from old_rows));
  delete from tidegate.response_part as p where p.request_id = any(array(select id from old_rows));
  delete from tidegate.request_reference as f where f.request_id = any(array(select id from old_rows));
  delete from tidegate.response_inbox as i where i.request_id = any(array(select id from old_rows));
  delete from tidegate.webhook_delivery as w where w.request_id = any(array(select id from old_rows));
  delete from tidegate.redrive as v where v.request_id = any(array(select id from old_rows));
  delete from tidegate.passed_over as n where n.request_id = any(array(select id from old_rows));
  insert into tidegate.request_count_delta (kind, req_status, delta)
  select r.kind, r.req_status, -count(*) from old_rows as r group by r.kind, r.req_status;
  return null;
end;
$$;

create or replace trigger request_removal
  after delete on tidegate.request
  referencing old table as old_rows
  for each statement execute function tidegate_internal.request_removal();

create or replace trigger request_is_never_truncated
  before truncate on tidegate.request
  for each statement execute function tidegate_internal.request_removal();
