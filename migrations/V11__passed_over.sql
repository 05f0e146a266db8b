-- Duties that fail, and requests that a duty can neither end nor delete.

alter table tidegate.maintenance
  add column error         text,
  add column failing_since timestamptz;

create table tidegate.passed_over (
  request_id uuid not null,
  duty       text not null,
  since      timestamptz not null,
  retry_at   timestamptz not null,
  error      text not null,
  constraint passed_over_pkey primary key (request_id, duty)
);

create index passed_over_retry_idx on tidegate.passed_over (duty, retry_at);
