-- State of the fleet: live workers, progress of each duty, counts, recoveries, the version.

create table tidegate.worker (
  name         text primary key,
  stages       text[] not null,
  queues       text[] not null,
  started_at   timestamptz not null default tidegate.clock(),
  last_seen_at timestamptz not null default tidegate.clock(),
  stopped_at   timestamptz,
  -- Those that it has stages for; null: all.
  kinds        text[]
);

-- The leases of tasks that one process runs at a time. A row is never deleted, so an epoch never comes again.
create table tidegate.singleton (
  name     text primary key,
  epoch    bigint not null,
  holder   text not null,
  taken_at timestamptz not null,
  until    timestamptz not null,
  lease_ms bigint not null,
  constraint singleton_name_has_1_to_100_characters check (length(name) between 1 and 100)
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

insert into tidegate.maintenance (duty, period)
select unnest(d.duties), d.period
from (values
  ('{adjust_policies,quota_reconcile,expire_by_deadline,expire_by_readiness,expire_responses}'::text[],
    interval '1 second'),
  ('{fold_calls,breakers_evaluate,gates_evaluate,take_samples,survey_queues,sweep_inbox}', '1 second'),
  ('{fold_counts,rescan_queues}', '2 seconds'),
  ('{expire_keys}', '10 seconds'),
  ('{expire_requests,expire_webhooks,forget_workers}', '1 minute'),
  ('{drop_partitions,expire_events,make_partitions}', '1 hour')
) as d(duties, period);

-- Append-only: transitions per statement, folded into `request_count` by maintenance.
create table tidegate.request_count_delta (
  kind        text not null,
  req_status  tidegate.request_status not null,
  delta       bigint not null,
  submitted   integer not null default 0,
  from_status tidegate.request_status
);

create table tidegate.request_count (
  kind       text not null,
  req_status tidegate.request_status not null,
  requests   bigint not null,
  primary key (kind, req_status)
);

-- The transitions of the last 65 minutes, by kind and the status they led to, in the minute in which they were folded.
create table tidegate.transition_minute (
  kind        text not null,
  req_status  tidegate.request_status not null,
  minute      timestamptz not null,
  transitions bigint not null,
  primary key (kind, req_status, minute)
);

-- One row a run of `recover`, or a batch of it by hand that found something. Kept permanently: they are few.
create table tidegate.recovery (
  id           bigint generated always as identity primary key,
  began_at     timestamptz not null default tidegate.clock(),
  last_at      timestamptz not null default tidegate.clock(),
  ended_at     timestamptz,
  actor        text not null default session_user,
  on_behalf_of text,
  options      jsonb,
  figures      jsonb not null default '{}'
) with (fillfactor = 50);

-- How far retention has come, kind by kind: every request of a kind up to this id was evaluated in this round.
create table tidegate.retention_walk (
  kind  text primary key,
  after uuid not null
);

-- What `migrate` last applied to each schema: Tidegate's own, and those of programs that embed it.
create table tidegate.schema_state (
  schema      text primary key,
  fingerprint text not null,
  version     text not null,
  applied_at  timestamptz not null default tidegate.clock(),
  checks      jsonb not null default '[]'
);
