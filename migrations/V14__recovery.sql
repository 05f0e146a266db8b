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
