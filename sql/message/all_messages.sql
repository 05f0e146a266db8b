-- all_messages: The messages of every queue and the requests claimed from it; the view queue_position adds their
-- positions: in the order of `starts` and `turn_no`, which are null in fifo queues, and of their numbers.
create or replace function tidegate.all_messages()
  returns table (queue text, msg_id bigint, request_id uuid, waiting boolean, held boolean, holder text,
    visible_at timestamptz, starts bigint, turn_no bigint)
  language plpgsql stable security definer as $$
declare
  v_now   timestamptz := tidegate.clock();
  v_queue text;
  v_fair  boolean;
begin
  for v_queue, v_fair in select q.name, q.fair_by is not null from tidegate_internal.stored_queues() as q loop
    return query execute format(
      $sql$
        select $1, m.msg_id, tidegate.message_request_id(m.message), m.vt <= $2, false, null::text, m.vt, %s
        from %s as m
      $sql$,
      case when v_fair then 'm.starts, m.no' else 'null::bigint, null::bigint' end,
      case when v_fair then format(
        $sql$
          (
            select
              m.*, coalesce(t.no, 9223372036854775807) as no,
              greatest(t.tag, $3) + coalesce(t.cost, 720720) * (
                count(*) filter (where m.vt <= $2) over (partition by m.fair_key order by m.msg_id)
                  - (m.vt <= $2)::integer
              ) as starts
            from %s as m
            left join (
              -- An idle turn keeps its tag.
              select distinct on (u.key) u.key, u.tag, u.cost, case when u.idle_at is null then u.no end as no
              from tidegate.%I as u
              order by u.key, u.tag desc
            ) as t on t.key = m.fair_key
          )
        $sql$, tidegate_internal.queue_table(v_queue), 'turn_' || v_queue
      ) else tidegate_internal.queue_table(v_queue) end
    ) using v_queue, v_now, case when v_fair then tidegate_internal.virtual_time(v_queue) end;
  end loop;
  -- A request whose lease has run out does not wait before others: one claim reaps it, and takes nothing else.
  return query select l.queue, l.msg_id, l.id, false, l.in_force, l.worker, l.until, null::bigint,
    null::bigint from tidegate.leased_request as l;
end;
$$;
select tidegate_internal.allow('all_messages', '{reader,api,worker,admin}');
