-- What the fleet keeps about itself: who is alive, how far each duty has come, counts and drains.

create table tidegate.worker (
  name         text primary key,
  stages       text[] not null,
  queues       text[] not null,
  started_at   timestamptz not null default clock_timestamp(),
  last_seen_at timestamptz not null default clock_timestamp(),
  stopped_at   timestamptz
);

-- The maintenance duties: how often each runs, when it last did, for how long, and how far it has come
-- (`cursor_at`, `cursor_id`: everything before them is done).
create table tidegate.maintenance (
  duty      text primary key,
  period    interval not null,
  ran_at    timestamptz not null default '-infinity',
  took_ms   numeric,
  cursor_at timestamptz not null default '2000-01-01',
  cursor_id uuid not null default '00000000-0000-0000-0000-000000000000',
  constraint maintenance_period_is_positive check (period > interval '0')
);

insert into tidegate.maintenance (duty, period) values
  ('expire_by_deadline', '1 second'),
  ('expire_by_readiness', '1 second'),
  ('expire_responses', '1 second'),
  ('sweep_inbox', '1 second'),
  ('rescan_queues', '2 seconds'),
  ('fold_counts', '2 seconds'),
  ('expire_keys', '10 seconds'),
  ('forget_workers', '1 minute'),
  ('make_partitions', '1 hour');

-- Append-only: transitions per statement, folded into `request_count` by maintenance.
create table tidegate.request_count_delta (
  kind       text not null,
  req_status tidegate.request_status not null,
  delta      bigint not null
);

create table tidegate.request_count (
  kind       text not null,
  req_status tidegate.request_status not null,
  requests   bigint not null,
  primary key (kind, req_status)
);

-- Append-only: messages that left a queue because their stage ended them.
create table tidegate.queue_drain (
  queue   text not null,
  at      timestamptz not null default clock_timestamp(),
  drained integer not null
);
create index queue_drain_at_idx on tidegate.queue_drain (at);

-- What `migrate` last applied; the fingerprint covers every file below sql/.
create table tidegate.schema_state (
  only_row    boolean primary key default true check (only_row),
  fingerprint text not null,
  version     text not null,
  applied_at  timestamptz not null default clock_timestamp()
);
