-- What operators do about lost and failed requests, on record.

-- One row a run of `recover`, or a batch of it by hand that found something. Kept for good: they are few.
create table tidegate.recovery (
  id           bigint generated always as identity primary key,
  began_at     timestamptz not null default clock_timestamp(),
  last_at      timestamptz not null default clock_timestamp(),
  ended_at     timestamptz,
  actor        text not null default session_user,
  on_behalf_of text,
  options      jsonb,
  figures      jsonb not null default '{}'
) with (fillfactor = 50);

-- How far retention has come, kind by kind: every request of a kind up to this id was looked at in this round.
create table tidegate.retention_walk (
  kind  text primary key,
  after uuid not null
);

-- For how long what gates, breakers and policies went through is told; null: for good.
alter table tidegate.setting add column event_retention interval;
alter table tidegate.setting add constraint setting_event_retention_is_at_least_an_hour
  check (event_retention >= interval '1 hour');

insert into tidegate.maintenance (duty, period) values
  ('expire_requests', '1 minute'), ('drop_partitions', '1 hour'), ('expire_events', '1 hour');

-- Failed and timed-out requests that were submitted again, and as what. Refers to nothing: the new one may go first, and what
-- was submitted again stays so.
create table tidegate.redrive (
  request_id   uuid primary key,
  redriven_as  uuid not null,
  at           timestamptz not null default clock_timestamp(),
  actor        text not null default session_user,
  on_behalf_of text,
  constraint redrive_makes_another_request check (redriven_as <> request_id)
);
create index redrive_redriven_as_idx on tidegate.redrive (redriven_as);
