-- What every view of schema `tidegate` and each of its columns shows.

-- queue_position
comment on view tidegate.queue_position is 'Every message in every queue, with its position.';
comment on column tidegate.queue_position.queue is 'The queue.';
comment on column tidegate.queue_position.msg_id is 'The number of the message; smaller is served first.';
comment on column tidegate.queue_position.request_id is 'The request it stands for.';
comment on column tidegate.queue_position.waiting is 'Whether it may be taken now.';
comment on column tidegate.queue_position.held is 'Whether a worker holds it under a lease that has not run out.';
comment on column tidegate.queue_position.holder is
  'The worker that took it; null when it was given back or never taken.';
comment on column tidegate.queue_position.queue_position is
  'How many waiting messages stand before it; 0: it is next, or held.';
comment on column tidegate.queue_position.visible_at is
  'When a message that does not wait may be taken: end of its lease, backoff or delayed start.';

-- request_eta
comment on view tidegate.request_eta is
  'Every request, finished ones too: where it stands and when to ask for it again; for one request, request_outlook '
  'is cheaper.';
comment on column tidegate.request_eta.id is 'The request.';
comment on column tidegate.request_eta.kind is 'Its kind.';
comment on column tidegate.request_eta.req_status is 'Its status.';
comment on column tidegate.request_eta.queue is 'The queue of its message, if it has one.';
comment on column tidegate.request_eta.position is
  'How many waiting messages stand before it; 0: it is next, or held; null: it is in no queue.';
comment on column tidegate.request_eta.elapsed is 'How long it has been in its status.';
comment on column tidegate.request_eta.retry_after_seconds is 'In how many seconds to ask again; 0: it has ended.';
comment on column tidegate.request_eta.place is
  'readiness_queue, checking, tx_queue, tx_in_flight, awaiting_response or finished.';

-- queue_drain_rate
comment on view tidegate.queue_drain_rate is 'Messages served per second, per queue, over three windows that end now.';
comment on column tidegate.queue_drain_rate.queue is 'The queue.';
comment on column tidegate.queue_drain_rate.per_second_10s is 'Messages per second over the last 10 seconds.';
comment on column tidegate.queue_drain_rate.per_second_1m is 'Messages per second over the last minute.';
comment on column tidegate.queue_drain_rate.per_second_5m is 'Messages per second over the last 5 minutes.';
comment on column tidegate.queue_drain_rate.last_drained_at is
  'When a message was last served; null: not within 5 minutes.';

-- queue_overview
comment on view tidegate.queue_overview is
  'One row per queue: how deep it is, how much is held, how fast it drains, what limits it.';
comment on column tidegate.queue_overview.queue is 'The queue.';
comment on column tidegate.queue_overview.stage is 'The stage it serves.';
comment on column tidegate.queue_overview.paused is 'Whether claims are stopped.';
comment on column tidegate.queue_overview.per_seconds is 'D, sends per second; null: no limit, 0: stopped.';
comment on column tidegate.queue_overview.burst is 'How many sends may start at once after a pause.';
comment on column tidegate.queue_overview.max_concurrency is
  'C, requests under check at once; null: no limit, 0: stopped.';
comment on column tidegate.queue_overview.depth is 'All messages.';
comment on column tidegate.queue_overview.waiting is 'Messages that may be taken now.';
comment on column tidegate.queue_overview.held is 'Messages under a lease that has not run out.';
comment on column tidegate.queue_overview.backing_off is 'Messages that come due later: a backoff or a delayed start.';
comment on column tidegate.queue_overview.per_second_10s is 'Messages served per second over the last 10 seconds.';
comment on column tidegate.queue_overview.per_second_1m is 'Messages served per second over the last minute.';
comment on column tidegate.queue_overview.per_second_5m is 'Messages served per second over the last 5 minutes.';
comment on column tidegate.queue_overview.gate is 'State of its gate: accepting or too_many_requests.';
comment on column tidegate.queue_overview.high_water is 'The depth at which the gate closes.';
comment on column tidegate.queue_overview.low_water is 'The depth at which it opens again.';
comment on column tidegate.queue_overview.oldest_age is
  'How long its oldest message has been in the queue; 0: the queue is empty.';

-- request_overview
comment on view tidegate.request_overview is
  'How many requests of each kind are in each status; from counts, never from a scan of the requests.';
comment on column tidegate.request_overview.kind is 'The kind.';
comment on column tidegate.request_overview.req_status is 'The status.';
comment on column tidegate.request_overview.requests is 'How many.';

-- worker_overview
comment on view tidegate.worker_overview is 'Every worker known: whether it is alive, and how much it holds.';
comment on column tidegate.worker_overview.name is 'The worker.';
comment on column tidegate.worker_overview.stages is 'The stages it runs.';
comment on column tidegate.worker_overview.queues is 'The queues it drains.';
comment on column tidegate.worker_overview.started_at is 'When it was first seen.';
comment on column tidegate.worker_overview.last_seen_at is 'When it was last seen.';
comment on column tidegate.worker_overview.stopped_at is 'When it said that it is stopping.';
comment on column tidegate.worker_overview.alive is
  'Whether it was seen within the last 30 seconds and has not said that it is stopping.';
comment on column tidegate.worker_overview.held is 'How many messages it holds.';

-- maintenance_overview
comment on view tidegate.maintenance_overview is 'Every maintenance duty: when it last ran, and how late it is.';
comment on column tidegate.maintenance_overview.duty is 'The duty.';
comment on column tidegate.maintenance_overview.period is 'How often it is to run.';
comment on column tidegate.maintenance_overview.ran_at is 'When it last began; null: never.';
comment on column tidegate.maintenance_overview.took_ms is 'How long it took, in milliseconds; null: it never ran.';
comment on column tidegate.maintenance_overview.overdue is
  'For how long it has been overdue, a long duty''s rest included; 0: it is not.';
