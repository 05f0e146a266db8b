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
    when p.per_second * (1 + s.safety_margin) < l.rate or l.rate is null then p.per_second
    else l.rate
  end
  from tidegate.setting as s
  cross join lateral (
    select case when p_queue.stage = 'tx' then p_queue.per_seconds else p_queue.max_concurrency end as rate
  ) as l
  left join tidegate.queue_pace as p
    on p.queue = p_queue.name and p.observed_at > clock_timestamp() - interval '30 seconds' and p.per_second > 0;
$$;
