-- The requests, and the narrow tables through which live ones are found.

-- The legal transitions. `from_status` is null for entries.
create table tidegate.transition_rule (
  flow        tidegate.flow not null,
  from_status tidegate.request_status,
  to_status   tidegate.request_status not null,
  cause       text collate "C" not null,
  constraint transition_rule_is_listed_once unique (flow, from_status, to_status, cause)
);

create unique index transition_rule_entry_is_listed_once
  on tidegate.transition_rule (flow, to_status, cause) where from_status is null;

-- No index here may cover, or have a predicate over, a column that a transition changes: every update stays HOT.
-- The fillfactor leaves room on the page for the later versions of its rows.
create table tidegate.request (
  id                    uuid primary key,
  kind                  text not null,
  flow                  tidegate.flow not null,
  req_status            tidegate.request_status not null,
  previous_status       tidegate.request_status,
  transition_no         integer not null default 1,
  cause                 text collate "C" not null default 'hand_edit',
  readiness_attempt     integer not null default 0,
  tx_attempt            integer not null default 0,
  response_threshold    integer not null default 1,
  queue                 text,
  msg_id                bigint,
  lease                 bigint,
  submitted_at          timestamptz not null default tidegate.clock(),
  deadline_at           timestamptz not null,
  readiness_deadline_at timestamptz,
  queued_at             timestamptz,
  processing_at         timestamptz,
  tx_in_flight_at       timestamptz,
  receipt_received_at   timestamptz,
  finished_at           timestamptz,
  worker                text,
  submitter             text,
  reference             text,
  payload               jsonb not null,
  response              jsonb,
  error                 jsonb,
  -- The ETA that the caller got at submit; written once, with the row. Numerics, because they need no alignment: behind
  -- an integer's padding, which moves with the length of what stands before it, the log of every update would repeat
  -- the payload.
  eta_seconds           numeric,
  eta_p90_ms            numeric,
  -- In the row, so that the transaction that ends a request reads it at no cost.
  callback_url          text,
  -- Snoozed checks and sends that certainly did not leave use no attempt of their policy.
  readiness_waits       integer not null default 0,
  checks_failing_since  timestamptz,
  tx_unsent             integer not null default 0
) with (
  fillfactor = 30,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_insert_scale_factor = 0.05,
  autovacuum_analyze_scale_factor = 0.05
);

-- Serves `expire_deadlines`: every row is visited about once, when its deadline passes.
create index request_deadline_at_idx on tidegate.request (deadline_at);
create index request_readiness_deadline_at_idx on tidegate.request (readiness_deadline_at)
  where readiness_deadline_at is not null;

-- Serves walks over the requests of one kind in the order of their ids. Its predicate is always true, and a query that
-- does not repeat it does not use the index: of a small table, where all indexes cost the same, a plan might look up
-- ids here, and a kept plan would go on to do so.
create index request_kind_id_idx on tidegate.request (kind, id) where kind >= '';

-- The claims of workers: one row for each claim, or for each part of one whose parts end at different times. `ids` are
-- in the reverse order of their numbers, and remain there when a request has left: its row no longer names the token.
create table tidegate.claim (
  token      bigint not null,
  part       integer not null default 0,
  queue      text not null,
  worker     text,
  claimed_at timestamptz not null,
  until      timestamptz not null,
  lease_ms   bigint not null,
  ids        uuid[] not null,
  primary key (token, part)
) with (
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);
-- Compression finds little in ids and takes its time at each claim.
alter table tidegate.claim alter column ids set storage external;
create index claim_queue_until_idx on tidegate.claim (queue, until);

-- Append-only: the transitions that a request's row does not contain (see the view `request_event`).
create table tidegate.stored_event (
  request_id    uuid not null,
  transition_no integer not null,
  from_status   tidegate.request_status,
  to_status     tidegate.request_status not null,
  at            timestamptz not null,
  attempt       integer not null,
  cause         text collate "C" not null,
  worker        text,
  detail        jsonb,
  primary key (request_id, transition_no)
) partition by range (request_id);

create table tidegate.stored_event_default partition of tidegate.stored_event default;

-- Live requests whose response is awaited.
create table tidegate.awaiting_response (
  request_id uuid primary key,
  due_at     timestamptz not null
);
create index awaiting_response_due_at_idx on tidegate.awaiting_response (due_at);

-- Downstream reference to request, kept as long as the request: late responses need it.
create table tidegate.request_reference (
  reference  text primary key,
  request_id uuid not null
);
create index request_reference_request_id_idx on tidegate.request_reference (request_id);

create table tidegate.response_part (
  request_id  uuid not null,
  part        text not null,
  response    jsonb,
  received_at timestamptz not null default tidegate.clock(),
  primary key (request_id, part)
);

-- Responses that came before their request awaited one (`late` false), or after it ended (`late` true).
create table tidegate.response_inbox (
  id          bigint generated always as identity primary key,
  request_id  uuid,
  reference   text,
  part        text,
  accept      boolean,
  late        boolean not null default false,
  received_at timestamptz not null default tidegate.clock(),
  response    jsonb,
  constraint response_inbox_is_addressed check (request_id is not null or reference is not null)
);
create index response_inbox_request_id_idx on tidegate.response_inbox (request_id) where request_id is not null;
create index response_inbox_reference_idx on tidegate.response_inbox (reference) where not late;
create index response_inbox_early_idx on tidegate.response_inbox (id) where not late;

-- Responses under references that no request has: read in slices, deleted when no request can have them any more.
create sequence tidegate.inbox_cursor minvalue 0;
create table tidegate.inbox_total (
  expired  bigint not null default 0,
  only_row boolean primary key default true constraint inbox_total_has_one_row check (only_row)
);
insert into tidegate.inbox_total default values;

-- A key expires when its window ends. In UTC, where each day has 24 hours.
create table tidegate.dedup (
  scope        text not null,
  key          text not null,
  fingerprint  bytea not null,
  request_id   uuid not null,
  first_seen   timestamptz not null,
  expires_at   timestamptz not null,
  dedup_window interval,
  primary key (scope, key),
  constraint dedup_expires_after_it_is_seen check (expires_at > first_seen),
  constraint dedup_expires_when_its_window_ends
    check (dedup_window is null or expires_at at time zone 'UTC' = first_seen at time zone 'UTC' + dedup_window)
);
create index dedup_expires_at_idx on tidegate.dedup (expires_at);

-- Append-only: the submissions of a kind between two calls of `fold_counts`.
create table tidegate.submission_sample (
  kind      text not null,
  at        timestamptz not null default tidegate.clock(),
  submitted integer not null,
  replayed  integer not null,
  counter   bigint not null default 0,
  constraint submission_sample_counts_replays_as_submitted check (replayed >= 0 and replayed <= submitted)
);
create index submission_sample_kind_at_idx on tidegate.submission_sample (kind, at);

-- Failed and timed-out requests that were redriven, with the new request. No foreign key: the new request may go first,
-- and the old one stays redriven.
create table tidegate.redrive (
  request_id   uuid primary key,
  redriven_as  uuid not null,
  at           timestamptz not null default tidegate.clock(),
  actor        text not null default session_user,
  on_behalf_of text,
  constraint redrive_makes_another_request check (redriven_as <> request_id)
);
create index redrive_redriven_as_idx on tidegate.redrive (redriven_as);
