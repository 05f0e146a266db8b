-- Gates that close and open by themselves, for queues and, as quotas, for kinds and submitters.

-- A gate watches one thing: a queue, the requests of a kind, or those of a submitter. Its name says which.
create table tidegate.gate (
  name       text primary key generated always as (coalesce(queue, 'kind ' || kind, 'submitter ' || submitter)) stored,
  queue      text references tidegate.queue on delete cascade,
  kind       text references tidegate.kind on delete cascade,
  submitter  text,
  state      text not null default 'accepting',
  mode       text not null default 'strict',
  high_water integer not null default 30,
  low_water  integer not null default 15,
  depth      bigint not null default 0,
  epoch      bigint not null default 0,
  forced     boolean not null default false,
  changed_at timestamptz not null default tidegate.clock(),
  constraint gate_queue_has_one unique (queue),
  constraint gate_kind_has_one unique (kind),
  constraint gate_submitter_has_one unique (submitter),
  constraint gate_watches_one_thing check (num_nonnulls(queue, kind, submitter) = 1),
  constraint gate_submitter_has_1_to_200_characters check (length(submitter) between 1 and 200),
  constraint gate_state_is_known check (state in ('accepting', 'too_many_requests')),
  constraint gate_mode_is_known check (mode in ('strict', 'soft')),
  constraint gate_high_water_is_at_most_1000000000 check (high_water <= 1000000000),
  constraint gate_low_water_is_below_high_water check (low_water >= 0 and low_water < high_water)
);

-- Append-only. `on_behalf_of`: the actor that forced or released a gate, as the calling program names it.
create table tidegate.gate_event (
  id           bigint generated always as identity,
  gate         text not null,
  epoch        bigint not null,
  state        text not null,
  depth        bigint not null,
  cause        text not null,
  actor        text not null default session_user,
  on_behalf_of text default left(nullif(current_setting('tidegate.actor', true), ''), 200),
  at           timestamptz not null default tidegate.clock(),
  primary key (gate, epoch)
);

-- The requests in queues that the gates of kinds and submitters count. Written only for those that have one. Refers to
-- nothing: every submission would lock its gate's row, and fail where the gate has just gone.
create table tidegate.quota_usage (
  gate       text not null,
  request_id uuid not null,
  primary key (gate, request_id)
);
create index quota_usage_request_idx on tidegate.quota_usage (request_id);

-- How far `quota_reconcile` has come, which finds requests that these gates should count and do not, or the reverse.
create table tidegate.gate_round (
  only_row   boolean primary key default true constraint gate_round_has_one_row check (only_row),
  queue      text not null default '',
  msg_id     bigint not null default 0,
  gate       text not null default '',
  request_id uuid not null default '00000000-0000-0000-0000-000000000000',
  is_new     boolean not null default false
);
insert into tidegate.gate_round default values;

-- The configuration that `submit` needs for a plain request, ready-made: a row for each kind that it serves. Kept by
-- triggers of its sources (see `wanted_terms`). Refers to nothing: every submission would lock its kind's row.
create table tidegate.submit_terms (
  kind               text primary key,
  flow               tidegate.flow not null,
  queue              text not null,
  gate               text not null,
  high_water         integer not null,
  deadline           interval not null,
  response_threshold integer not null,
  set_paths          text[],
  makes_keys         boolean not null,
  key_scope          text not null,
  dedup_window       interval not null,
  has_breaker        boolean not null,
  has_quotas         boolean not null,
  min_seconds        integer not null,
  max_seconds        integer not null,
  eta_first          bigint not null,
  eta_each           bigint not null,
  eta_below          bigint
);
