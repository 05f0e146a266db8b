-- rate_limits: What each queue's rate limit admits now; the view rate_limit shows it.
create or replace function tidegate.rate_limits()
  returns table (queue text, per_seconds numeric, burst integer, next_send_at timestamptz, sends_left integer)
  language plpgsql volatile security definer as $$
declare
  v_now constant timestamptz := tidegate.clock();
begin
  return query
    select
      q.name, q.per_seconds, q.burst, v_now + make_interval(secs => s.wait_ms / 1000.0), s.slots
    from tidegate.queue as q
    join tidegate_internal.stored_queues() as t on t.name = q.name
    cross join lateral tidegate_internal.pacing_slots(
      pg_sequence_last_value(tidegate_internal.queue_counter(q.name, 'pacing')), q.per_seconds, q.burst, v_now
    ) as s
    where q.per_seconds is not null;
end;
$$;
select tidegate_internal.allow('rate_limits', '{reader,worker,admin}');
