-- What is kept of queues and kinds so that positions and ETAs are cheap and true, and how good the predictions were.

create table tidegate.queue_survey (
  queue            text not null,
  stretch          bigint not null,
  waiting          integer not null,
  waiting_by_block smallint[] not null,
  primary key (queue, stretch),
  constraint queue_survey_counts_up_to_sixty_four_blocks check (cardinality(waiting_by_block) between 1 and 64),
  constraint queue_survey_waiting_is_not_negative check (waiting >= 0)
) with (
  -- Every poll reads it, and the stretches at the head of a queue change all the time.
  fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200
);

create table tidegate.kind_watermark (
  queue    text not null,
  kind     text not null,
  mark     bigint not null,
  epoch    bigint not null,
  noted_at timestamptz not null default tidegate.clock(),
  primary key (queue, kind)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

-- Append-only: messages that left a queue because their stage ended them.
create table tidegate.queue_drain (
  queue   text not null,
  at      timestamptz not null default tidegate.clock(),
  drained integer not null,
  held_ms bigint
);
create index queue_drain_at_idx on tidegate.queue_drain (at);

-- Append-only: one row for the requests of a kind that one statement ended; folded into `eta_quality_total` and
-- `answer_sample` by maintenance.
create table tidegate.finish_sample (
  kind           text not null,
  at             timestamptz not null default tidegate.clock(),
  requests       integer not null,
  answer_ms      integer[],
  predicted      integer not null,
  error_ms       bigint not null,
  error_abs_ms   bigint not null,
  error_bins     integer[] not null,
  p90_stated     integer not null,
  p90_held       integer not null
);
create index finish_sample_kind_at_idx on tidegate.finish_sample (kind, at);

-- How long the latest answers of each kind took.
create table tidegate.answer_sample (
  kind      text not null,
  at        timestamptz not null,
  answer_ms integer[] not null
);
create index answer_sample_kind_at_idx on tidegate.answer_sample (kind, at);

create table tidegate.eta_quality_total (
  kind           text primary key,
  requests       bigint not null,
  predicted      bigint not null,
  error_ms       numeric not null,
  error_abs_ms   numeric not null,
  error_bins     bigint[] not null,
  p90_stated     bigint not null,
  p90_held       bigint not null
);

-- Polls of requests until one returned the answer, and the lateness of that poll.
create table tidegate.poll_count (
  kind        text primary key,
  answered    bigint not null,
  polls       bigint not null,
  lateness_ms numeric not null
);

-- Append-only: the first waiting message of each queue, second by second while something waits (null: nothing waits,
-- or the queue stood still, which does not count for its pace); kept for a minute.
create table tidegate.queue_sample (
  queue text not null,
  at    timestamptz not null,
  head  bigint,
  primary key (queue, at)
);

-- One row a queue: how fast its messages leave it while some wait.
create table tidegate.queue_pace (
  queue       text primary key,
  head        bigint,
  head_since  timestamptz,
  still_since timestamptz,
  per_second  numeric,
  held_ms     numeric,
  observed_at timestamptz not null
) with (fillfactor = 50);

-- One row a kind: how long its answers take once they are sent for.
create table tidegate.kind_pace (
  kind            text primary key,
  samples         integer not null,
  answer_ms       double precision[],
  in_flight       bigint not null,
  in_flight_since timestamptz,
  still_since     timestamptz,
  observed_at     timestamptz not null
) with (fillfactor = 50);
