-- tidegate.queue_rate: how many messages a queue serves per second, as far as anybody knows; null: no limit, 0: stopped
--
-- The limit of a tx queue, and of a readiness queue, as `eta_seconds` reckons, its concurrency at a second a check. Or as
-- fast as it was seen to move lately, when there is no limit, or when that is slower by more than the safety margin.
create or replace function tidegate.queue_rate(p_queue tidegate.queue)
  returns numeric
  language sql
  stable
as $$
  select case
    when p_queue.paused then 0
    else least(
      case when p_queue.stage = 'tx' then p_queue.per_seconds else p_queue.max_concurrency end,
      (
        select nullif(p.per_second, 0)
          * (1 + case when coalesce(p_queue.per_seconds, p_queue.max_concurrency) is null then 0 else s.safety_margin end)
        from tidegate.queue_pace as p
        cross join tidegate.setting as s
        where p.queue = p_queue.name and p.observed_at > clock_timestamp() - interval '30 seconds'
      )
    )
  end;
$$;
