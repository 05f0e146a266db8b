-- What is known about sends of requests that ended without an answer, and how long keys stand for such requests.

alter table tidegate.kind
  add column key_after_unknown text not null default 'window',
  add column key_compares      text not null default 'payload',
  add column resolve_for       interval,
  add constraint kind_key_after_unknown_is_known check (key_after_unknown in ('window', 'resolved', 'free')),
  add constraint kind_key_compares_is_known check (key_compares in ('payload', 'nothing')),
  add constraint kind_resolve_for_is_not_negative check (resolve_for >= interval '0');

alter table tidegate.submit_terms add column compares_payloads boolean not null default true;

-- A send that has begun is not called back: a cancel waits for its settle, and so does, after an end during it, what is
-- known of the request. A repeat of a request that may have been executed is sent under the id of that one.
alter table tidegate.request
  add column cancel_requested_at timestamptz,
  add column ended_lease         bigint,
  add column send_id             uuid;
create index request_send_id_idx on tidegate.request (send_id) where send_id is not null;

-- Requests that ended in failure or timed out after a send that may have been executed.
create table tidegate.outcome (
  request_id      uuid primary key,
  kind            text not null,
  executed        text collate "C" not null,
  source          text collate "C" not null,
  at              timestamptz not null default tidegate.clock(),
  note            text,
  actor           text,
  contradicted_by jsonb,
  searches        integer not null default 0,
  search_at       timestamptz,
  constraint outcome_executed_is_known check (executed in ('no', 'yes', 'unknown')),
  constraint outcome_source_is_known
    check (source in ('attempts', 'settle', 'response', 'search', 'receipt_taken_back', 'downstream', 'operator')),
  constraint outcome_is_unknown_iff_only_attempts_are_known check ((executed = 'unknown') = (source = 'attempts'))
);
create index outcome_unresolved_idx on tidegate.outcome (request_id) where executed = 'unknown';
create index outcome_contradicted_idx on tidegate.outcome (request_id) where contradicted_by is not null;
create index outcome_search_at_idx on tidegate.outcome (kind, search_at) where executed = 'unknown';

-- The delivery of a resolution takes the place of that of the end.
alter table tidegate.webhook_delivery
  add column event text not null default 'request.ended',
  add constraint webhook_delivery_event_is_known check (event in ('request.ended', 'request.resolved'));

-- A key is examined at `expires_at`, which is later than the end of its window while it stands for longer.
update tidegate.dedup
set dedup_window = expires_at at time zone 'UTC' - first_seen at time zone 'UTC'
where dedup_window is null;
alter table tidegate.dedup
  alter column dedup_window set not null,
  drop constraint dedup_expires_when_its_window_ends,
  add constraint dedup_expires_no_earlier_than_its_window
    check (expires_at at time zone 'UTC' >= first_seen at time zone 'UTC' + dedup_window);
