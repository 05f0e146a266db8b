-- What the last minutes showed, from which the observed ETA is made, and how good the predictions were.

alter table tidegate.setting add column jitter numeric not null default 0.1;
alter table tidegate.setting add constraint setting_jitter_is_zero_to_one check (jitter between 0 and 1);

-- What an ETA depends on besides the place and position of a request.
create type tidegate.eta_terms as (
  tx_queue_size bigint,
  drain_tps     numeric,
  concurrency   integer,
  safety_margin numeric,
  min_seconds   integer,
  max_seconds   integer,
  jitter        numeric
);

-- When to come back: `seconds`, or with jitter up to `spread_to`; with what probability the answer is there by when.
create type tidegate.eta as (
  seconds   integer,
  spread_to numeric,
  p50_ms    bigint,
  p90_ms    bigint
);

-- What the caller was told at submit. Written once, with the row. Numerics, because they need no alignment: behind an
-- integer's padding, which moves with the length of what stands before it, the log of every update would repeat the
-- payload.
alter table tidegate.request add column eta_seconds numeric;
alter table tidegate.request add column eta_p90_ms numeric;

alter table tidegate.queue_drain add column held_ms bigint;

-- Append-only: one row for the requests of a kind that one statement ended; folded into `eta_quality_total` and
-- `answer_sample` by maintenance.
create table tidegate.finish_sample (
  kind           text not null,
  at             timestamptz not null default clock_timestamp(),
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

-- What callers did with what they were told: polls of requests until one brought the answer, and how late it was.
create table tidegate.poll_count (
  kind        text primary key,
  answered    bigint not null,
  polls       bigint not null,
  lateness_ms numeric not null
);

-- Append-only: the first waiting message of each queue, second by second while something waits (null: nothing waits,
-- or the queue stood still and tells nothing about its pace); kept for a minute.
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

insert into tidegate.maintenance (duty, period) values ('observe', '1 second');
