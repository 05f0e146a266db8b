-- Keys of the HTTP API; and webhooks for the ends of requests: the hosts that callback URLs may name, secrets, and
-- the outbox of deliveries.

-- Only a hash of a key is here: the key itself is shown once, when it is made.
create table tidegate.api_key (
  id          text primary key,
  name        text not null,
  secret_hash bytea not null,
  scopes      text[] not null,
  submitter   text not null,
  created_at  timestamptz not null default tidegate.clock(),
  created_by  text not null default session_user,
  revoked_at  timestamptz,
  revoked_by  text,
  version     bigint not null,
  constraint api_key_id_is_sixteen_hex_digits check (id ~ '^[0-9a-f]{16}$'),
  constraint api_key_name_has_1_to_100_characters check (length(name) between 1 and 100),
  constraint api_key_secret_hash_is_a_sha256 check (length(secret_hash) = 32),
  constraint api_key_has_a_scope check (cardinality(scopes) > 0 and array_position(scopes, null) is null),
  constraint api_key_scopes_are_known check (scopes <@ '{submit,submit-accepted,respond,admin}'),
  constraint api_key_submitter_has_1_to_200_characters check (length(submitter) between 1 and 200),
  constraint api_key_revocation_has_an_actor check ((revoked_at is null) = (revoked_by is null)),
  constraint api_key_version_is_used_once unique (version)
);

-- A live name names one key; a revoked one may be given again.
create unique index api_key_live_name_idx on tidegate.api_key (name) where revoked_at is null;

-- Without a port it stands for the default port of the URL's scheme, with one for that port only.
create table tidegate.webhook_host (
  host          text primary key,
  allow_private boolean not null default false,
  created_at    timestamptz not null default tidegate.clock(),
  created_by    text not null default session_user,
  constraint webhook_host_is_a_name_an_address_or_a_wildcard_in_lower_case check (
    length(host) <= 260
    and host ~ '^(\*\.([a-z0-9-]+\.)+[a-z][a-z0-9-]*|[a-z0-9]([a-z0-9.-]*[a-z0-9])?|'
      '\[[0-9a-f:.]+\])(:[1-9][0-9]{0,4})?$'
  )
);

create table tidegate.webhook_secret (
  id         bigint generated always as identity primary key,
  host       text references tidegate.webhook_host on delete cascade,
  secret     text not null,
  created_at timestamptz not null default tidegate.clock(),
  expires_at timestamptz,
  constraint webhook_secret_has_at_least_32_characters check (length(secret) >= 32)
);

-- One row: how deliveries are tried.
create table tidegate.webhook_policy (
  only_row   boolean primary key default true constraint webhook_policy_has_one_row check (only_row),
  attempts   integer not null default 8,
  base_ms    integer not null default 1000,
  factor     numeric not null default 3,
  cap_ms     integer not null default 600000,
  timeout_ms integer not null default 10000,
  per_host   integer not null default 8,
  retention  interval not null default '7 days',
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
  due_at      timestamptz not null default tidegate.clock(),
  nonce       bigint,
  last_status integer,
  last_error  text,
  created_at  timestamptz not null default tidegate.clock(),
  finished_at timestamptz,
  constraint webhook_delivery_state_is_known check (state in ('pending', 'delivered', 'failed')),
  constraint webhook_delivery_is_finished_unless_pending check ((state = 'pending') = (finished_at is null)),
  constraint webhook_delivery_is_held_only_while_pending check (nonce is null or state = 'pending')
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

-- Serves `webhook_claim`: host by host, the longest due first, so that no host waits behind another host's backlog.
create index webhook_delivery_due_idx on tidegate.webhook_delivery (host_port, due_at) where state = 'pending';

-- Serves the bound on deliveries under way to one host.
create index webhook_delivery_held_idx on tidegate.webhook_delivery (host_port) where nonce is not null;

-- Serves lists of what failed, and delivering it again.
create index webhook_delivery_failed_idx on tidegate.webhook_delivery (request_id) where state = 'failed';

-- Serves `expire_webhooks`.
create index webhook_delivery_finished_idx on tidegate.webhook_delivery (finished_at) where finished_at is not null;
