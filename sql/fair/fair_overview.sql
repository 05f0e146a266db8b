-- fair_overview: How many keys take turns in each fair queue, and what its claims and maintenance have still to fold.
create or replace function tidegate.fair_overview()
  returns table (queue text, fair_by text, active_keys bigint, idle_turns bigint, arrivals bigint)
  language plpgsql stable security definer as $$
declare
  v_queue text;
begin
  for v_queue in select q.name from tidegate_internal.stored_queues() as q where q.fair_by is not null loop
    return query execute format(
      $sql$
        select q.name, q.fair_by, t.active, t.idle, (select count(*) from tidegate.%I)
        from tidegate.queue as q
        cross join (
          select count(*) filter (where t.idle_at is null) as active, count(t.idle_at) as idle from tidegate.%I as t
        ) as t
        where q.name = $1
      $sql$, 'arrival_' || v_queue, 'turn_' || v_queue
    ) using v_queue;
  end loop;
end;
$$;
select tidegate_internal.allow('fair_overview', '{reader,api,worker,admin}');
