-- kind_remove: Removes a kind that has no requests; with `drain` refuses new ones first, and with `requests` deletes
-- those that have ended. Call it again until `removed` is true.
--
-- As long as live requests are left, `drain` holds the kind's gate closed (of a quota that it makes), and returns how
-- many there are: `live`. A drain that is given up is undone by `gate_force('kind NAME', null)`. `requests` deletes the
-- requests that have ended with keys and histories, `batch` a call, oldest first; `ended` are those that are left.
-- Queues of the kind that no other kind uses go with it with `queues`; `queues_removed` names them, `queues_kept` those
-- that other kinds use or that hold messages. Raises TG002 for an unknown kind, TG007 when there are requests that it
-- was not asked to wait for or to delete. `actor` is recorded in the history.
create or replace function tidegate.kind_remove(
  kind text, drain boolean default false, requests boolean default false, queues boolean default false,
  batch integer default 1000, actor text default null,
  out removed boolean, out live bigint, out ended bigint, out queues_removed text[], out queues_kept text[]
)
  language plpgsql security definer as $$
declare
  v_actor_before text := tidegate_internal.set_actor(kind_remove.actor);
  v_kind         tidegate.kind := tidegate_internal.require_kind(kind_remove.kind);
  v_queue        text;
  v_ids          uuid[];
  v_held         uuid[];
  v_keys         tid[];
  v_free         uuid[];
  v_gone         uuid[];
begin
  select
    coalesce(sum(o.requests) filter (where o.req_status not in ('completed', 'timed_out', 'failure')), 0),
    coalesce(sum(o.requests) filter (where o.req_status in ('completed', 'timed_out', 'failure')), 0)
  into live, ended
  from tidegate.request_overview as o
  where o.kind = v_kind.name;
  removed := false;
  queues_removed := '{}';
  queues_kept := '{}';
  if live > 0 and not drain then
    raise exception using errcode = 'TG007', message = format('kind "%s" has %s live requests', v_kind.name, live),
      hint = format('`tidegate kind remove %1$s --drain` refuses new ones and waits for these; `tidegate cancel --kind '
        '%1$s` ends them', v_kind.name);
  elsif ended > 0 and not requests then
    raise exception using errcode = 'TG007',
      message = format('kind "%s" has %s requests that have ended, whose results callers may still read', v_kind.name,
        ended),
      hint = format('they go with their retention (%s.retention), or now: `tidegate kind remove %1$s --requests`',
        v_kind.name);
  end if;

  if live > 0 then
    if not exists (select from tidegate.gate as g where g.kind = v_kind.name) then
      perform tidegate.quota_set(kind => v_kind.name, high_water => 1000000000);
    end if;
    perform tidegate.gate_force('kind ' || v_kind.name, 'too_many_requests');
  elsif ended > 0 then
    v_ids := array(
      select r.id
      from tidegate.request as r
      where r.kind >= '' and r.kind = v_kind.name
      order by r.kind, r.id
      limit batch
    );
    -- Their keys go first, because no request goes that a key stands for. A submission locks a key, and then the
    -- request that it stands for, so neither is waited for: a request stays with all its keys when one is locked.
    v_held := array(
      select r.id
      from tidegate.request as r
      where r.id = any(v_ids) and r.req_status in ('completed', 'timed_out', 'failure')
      order by r.id
      for update skip locked
    );
    v_keys := array(select k.ctid from tidegate.dedup as k where k.request_id = any(v_held) for update skip locked);
    v_free := array(
      select h
      from unnest(v_held) as h
      where not exists (select from tidegate.dedup as k where k.request_id = h and k.ctid <> all(v_keys))
    );
    delete from tidegate.dedup as d where d.ctid = any(v_keys) and d.request_id = any(v_free);
    v_gone := coalesce(tidegate_internal.delete_requests(v_free), '{}');
    -- The counts may name requests that are gone: one that finds none ends the loop of the caller.
    ended := case v_ids when '{}' then 0 else greatest(0, ended - cardinality(v_gone)) end;
  end if;
  if live + ended = 0 then
    delete from tidegate.kind as k where k.name = v_kind.name;
    removed := true;
    for v_queue in
      select q.name from tidegate.queue as q where queues and q.name in (v_kind.tx_queue, v_kind.readiness_queue)
      order by q.name
    loop
      begin
        delete from tidegate.queue as q where q.name = v_queue;
        queues_removed := queues_removed || v_queue;
      exception when foreign_key_violation or sqlstate 'TG005' then
        queues_kept := queues_kept || v_queue;
      end;
    end loop;
  end if;
  perform set_config('tidegate.actor', v_actor_before, true);
end;
$$;
select tidegate_internal.allow('kind_remove', '{admin}');
