-- fair_overview: How many keys take turns in each fair queue, and what its claims and maintenance have still to fold.
--
-- A queue whose turns or journal have been dropped by hand is left out.
create or replace function tidegate.fair_overview()
  returns table (queue text, fair_by text, active_keys bigint, idle_turns bigint, arrivals bigint)
  language plpgsql stable security definer as $$
declare
  v_queue tidegate.queue;
begin
  for v_queue in select q.* from tidegate_internal.fair_queues() as q loop
    return query execute format(
      $sql$
        select $1, $2, count(*) filter (where t.idle_at is null), count(t.idle_at), (select count(*) from tidegate.%I)
        from tidegate.%I as t
      $sql$, 'arrival_' || v_queue.name, 'turn_' || v_queue.name
    ) using v_queue.name, v_queue.fair_by;
  end loop;
end;
$$;
select tidegate_internal.allow('fair_overview', '{reader,api,worker,admin}');
