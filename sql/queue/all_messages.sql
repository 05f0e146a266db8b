-- all_messages: the messages of every queue, for views
create or replace function tidegate.all_messages()
  returns table (queue text, msg_id bigint, request_id uuid, waiting boolean, held boolean, holder text, visible_at timestamptz)
  language plpgsql
  stable
  security definer
  set search_path = pg_catalog, pg_temp
  set jit = off
as $$
#variable_conflict use_column
declare
  v_now   timestamptz := tidegate.clock();
  v_queue text;
begin
  for v_queue in
    select q.name from tidegate.queue as q where to_regclass(tidegate_internal.queue_table(q.name)) is not null order by q.name
  loop
    return query execute format(
      $sql$
        select
          $1, m.msg_id, tidegate.message_request_id(m.message), m.vt <= $2, tidegate.is_held(m.headers, m.vt, $2),
          m.headers ->> 'worker', m.vt
        from %s as m
      $sql$,
      tidegate_internal.queue_table(v_queue)
    ) using v_queue, v_now;
  end loop;
end;
$$;

comment on function tidegate.all_messages is
  'The messages of every queue; queue_position reads them with their positions.';
select tidegate_internal.allow('all_messages', '{reader,api,worker,admin}');
