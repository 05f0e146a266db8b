-- queue_overview: One row per queue: its depth, held requests, drain rate, limits and gate.
--
--   queue: The queue.
--   stage: The stage it serves.
--   fair_by: Whose turns it serves: of submitters or kinds; null: in order of arrival.
--   paused: Whether claims are stopped.
--   per_seconds: D, sends per second; null: no limit, 0: stopped.
--   burst: How many sends may start at once after a pause.
--   max_concurrency: C, checks under way at once; null: no limit, 0: stopped.
--   depth: All messages.
--   waiting: Messages that may be claimed now.
--   held: Messages under a lease that has not run out.
--   backing_off: Messages that come due later: a backoff or a delayed start.
--   per_second_10s: Messages drained per second over the last 10 seconds.
--   per_second_1m: Messages drained per second over the last minute.
--   per_second_5m: Messages drained per second over the last 5 minutes.
--   gate: State of its gate: accepting or too_many_requests.
--   high_water: The depth at which the gate closes.
--   low_water: The depth at which it opens again.
--   oldest_age: How long its oldest message has been in it; 0: it is empty.
--   unserved: Kinds whose requests wait here and that no live worker claims.
create or replace view tidegate.queue_overview as
select
  q.name as queue, q.stage, q.fair_by, q.paused, q.per_seconds, q.burst, q.max_concurrency,
  coalesce(c.depth, 0) as depth,
  coalesce(c.waiting, 0) as waiting, coalesce(c.held, 0) as held,
  coalesce(c.depth - c.waiting - c.held, 0) as backing_off, d.per_second_10s, d.per_second_1m, d.per_second_5m,
  g.state as gate, g.high_water, g.low_water, greatest(interval '0', tidegate.clock() - c.oldest_at) as oldest_age,
  array(select u.kind from tidegate.unserved as u where u.queue = q.name order by u.kind) as unserved
from tidegate.queue as q
join tidegate.queue_drain_rate as d on d.queue = q.name
join tidegate.gate as g on g.queue = q.name
left join tidegate.queue_counts() as c on c.queue = q.name;
