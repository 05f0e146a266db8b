-- Who is told when a request ends: callback URLs, the hosts they may name, secrets, and the outbox of deliveries.

alter table tidegate.kind
  add column callback_url text,
  add constraint kind_callback_url_is_http_of_at_most_2000_characters
    check (callback_url ~ '^https?://' and length(callback_url) <= 2000);

-- In the row, so that whoever ends a request sees at no cost whether somebody wants to know.
alter table tidegate.request add column callback_url text;

-- Without a port it stands for the default port of the URL's scheme, with one for that port only.
create table tidegate.webhook_host (
  host          text primary key,
  allow_private boolean not null default false,
  created_at    timestamptz not null default clock_timestamp(),
  created_by    text not null default session_user,
  constraint webhook_host_is_a_name_an_address_or_a_wildcard_in_lower_case check (
    length(host) <= 260
    and host ~ '^(\*\.([a-z0-9-]+\.)+[a-z][a-z0-9-]*|[a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(:[1-9][0-9]{0,4})?$'
  )
);

create table tidegate.webhook_secret (
  id         bigint generated always as identity primary key,
  host       text references tidegate.webhook_host on delete cascade,
  secret     text not null,
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz,
  constraint webhook_secret_has_at_least_32_characters check (length(secret) >= 32)
);

-- One row: how deliveries are tried.
create table tidegate.webhook_policy (
  only_row   boolean primary key default true,
  attempts   integer not null default 8,
  base_ms    integer not null default 1000,
  factor     numeric not null default 3,
  cap_ms     integer not null default 600000,
  timeout_ms integer not null default 10000,
  per_host   integer not null default 8,
  retention  interval not null default '7 days',
  constraint webhook_policy_has_one_row check (only_row),
  constraint webhook_policy_attempts_is_one_to_a_thousand check (attempts between 1 and 1000),
  constraint webhook_policy_base_is_not_negative check (base_ms >= 0),
  constraint webhook_policy_factor_is_one_to_a_thousand check (factor between 1 and 1000),
  constraint webhook_policy_cap_is_base_to_a_day check (cap_ms between base_ms and 86400000),
  constraint webhook_policy_timeout_is_100_ms_to_a_minute check (timeout_ms between 100 and 60000),
  constraint webhook_policy_per_host_is_one_to_a_thousand check (per_host between 1 and 1000),
  constraint webhook_policy_retention_is_positive check (retention > interval '0')
);

insert into tidegate.webhook_policy default values;

-- The outbox: written in the transaction that ends a request, which happens once.
create table tidegate.webhook_delivery (
  request_id  uuid primary key,
  id          uuid not null,
  url         text not null,
  host_port   text not null,
  state       text not null default 'pending',
  attempt     integer not null default 0,
  due_at      timestamptz not null default clock_timestamp(),
  nonce       bigint,
  last_status integer,
  last_error  text,
  created_at  timestamptz not null default clock_timestamp(),
  finished_at timestamptz,
  constraint webhook_delivery_state_is_known check (state in ('pending', 'delivered', 'failed')),
  constraint webhook_delivery_is_finished_unless_pending check ((state = 'pending') = (finished_at is null)),
  constraint webhook_delivery_is_held_only_while_pending check (nonce is null or state = 'pending')
) with (
  fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000
);

-- Serves `webhook_claim`: host by host, the longest due first, so that nobody waits behind another host's backlog.
create index webhook_delivery_due_idx on tidegate.webhook_delivery (host_port, due_at) where state = 'pending';

-- Serves the bound on deliveries under way to one host.
create index webhook_delivery_held_idx on tidegate.webhook_delivery (host_port) where nonce is not null;

-- Serves lists of what failed, and delivering it again.
create index webhook_delivery_failed_idx on tidegate.webhook_delivery (request_id) where state = 'failed';

-- Serves `expire_webhooks`.
create index webhook_delivery_finished_idx on tidegate.webhook_delivery (finished_at) where finished_at is not null;

insert into tidegate.maintenance (duty, period) values ('expire_webhooks', '1 minute');
