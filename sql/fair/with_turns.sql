-- with_turns: The query of an invariant with the turns, the journals and the messages of all fair queues in place of
-- `{turn}`, `{arrival}` and `{keyed}`.
create or replace function tidegate_internal.with_turns(p_query text)
  returns text language sql stable as $$
  select case when p_query !~ '[{](turn|arrival|keyed)[}]' then p_query else replace(replace(replace(
    p_query,
    '{turn}', tidegate_internal.of_fair_queues(
      'select %1$L::text as queue, t.* from tidegate.%2$I as t', 'turn_',
      'queue text, key bigint, tag bigint, no bigint, cost bigint, head bigint, waiting bigint, idle_at timestamptz'
    )),
    '{arrival}', tidegate_internal.of_fair_queues(
      'select %1$L::text as queue, a.* from tidegate.%2$I as a', 'arrival_',
      'queue text, at timestamptz, key bigint, first bigint, n integer, urgent boolean'
    )),
    '{keyed}', tidegate_internal.of_fair_queues(
      'select %1$L::text as queue, m.msg_id, m.vt, m.fair_key as key from pgmq.%2$I as m', 'q_',
      'queue text, msg_id bigint, vt timestamptz, key bigint'
    )) end;
$$;
