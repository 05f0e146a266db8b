-- queue_overview: One row per queue: its depth, held requests, drain rate, limits and gate.
create or replace view tidegate.queue_overview as
select
  q.name as queue, q.stage, q.paused, q.per_seconds, q.burst, q.max_concurrency, coalesce(c.depth, 0) as depth,
  coalesce(c.waiting, 0) as waiting, coalesce(c.held, 0) as held,
  coalesce(c.depth - c.waiting - c.held, 0) as backing_off, d.per_second_10s, d.per_second_1m, d.per_second_5m,
  g.state as gate, g.high_water, g.low_water, greatest(interval '0', tidegate.clock() - c.oldest_at) as oldest_age,
  array(select u.kind from tidegate.unserved as u where u.queue = q.name order by u.kind) as unserved
from tidegate.queue as q
join tidegate.queue_drain_rate as d on d.queue = q.name
join tidegate.gate as g on g.queue = q.name
left join tidegate.queue_counts() as c on c.queue = q.name;
comment on column tidegate.queue_overview.queue is 'The queue.';
comment on column tidegate.queue_overview.stage is 'The stage it serves.';
comment on column tidegate.queue_overview.paused is 'Whether claims are stopped.';
comment on column tidegate.queue_overview.per_seconds is 'D, sends per second; null: no limit, 0: stopped.';
comment on column tidegate.queue_overview.burst is 'How many sends may start at once after a pause.';
comment on column tidegate.queue_overview.max_concurrency is 'C, checks under way at once; null: no limit, 0: stopped.';
comment on column tidegate.queue_overview.depth is 'All messages.';
comment on column tidegate.queue_overview.waiting is 'Messages that may be claimed now.';
comment on column tidegate.queue_overview.held is 'Messages under a lease that has not run out.';
comment on column tidegate.queue_overview.backing_off is 'Messages that come due later: a backoff or a delayed start.';
comment on column tidegate.queue_overview.per_second_10s is 'Messages drained per second over the last 10 seconds.';
comment on column tidegate.queue_overview.per_second_1m is 'Messages drained per second over the last minute.';
comment on column tidegate.queue_overview.per_second_5m is 'Messages drained per second over the last 5 minutes.';
comment on column tidegate.queue_overview.gate is 'State of its gate: accepting or too_many_requests.';
comment on column tidegate.queue_overview.high_water is 'The depth at which the gate closes.';
comment on column tidegate.queue_overview.low_water is 'The depth at which it opens again.';
comment on column tidegate.queue_overview.oldest_age is 'How long its oldest message has been in it; 0: it is empty.';
comment on column tidegate.queue_overview.unserved is 'Kinds whose requests wait here and that no live worker claims.';
