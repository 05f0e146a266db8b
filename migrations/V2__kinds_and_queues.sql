-- What an operator configures: queues with their limits and gates, kinds with their timings and policies.

create table tidegate.queue (
  name            text primary key,
  stage           tidegate.stage not null,
  per_seconds     numeric,
  burst           integer not null default 1,
  max_concurrency integer,
  paused          boolean not null default false,
  created_at      timestamptz not null default clock_timestamp(),
  constraint queue_name_is_lower_snake_case check (name ~ '^[a-z][a-z0-9_]{0,39}$'),
  constraint queue_per_seconds_is_zero_to_a_million check (per_seconds = 0 or per_seconds between 0.0001 and 1000000),
  constraint queue_burst_is_at_least_one check (burst between 1 and 10000),
  constraint queue_max_concurrency_is_not_negative check (max_concurrency >= 0),
  constraint queue_readiness_is_limited_by_concurrency check (stage = 'tx' or per_seconds is null),
  constraint queue_tx_is_limited_by_rate check (stage = 'readiness' or max_concurrency is null)
);

create table tidegate.gate (
  queue      text primary key references tidegate.queue on delete cascade,
  state      text not null default 'accepting',
  mode       text not null default 'strict',
  high_water integer not null default 30,
  low_water  integer not null default 15,
  depth      bigint not null default 0,
  epoch      bigint not null default 0,
  forced     boolean not null default false,
  changed_at timestamptz not null default clock_timestamp(),
  constraint gate_state_is_known check (state in ('accepting', 'too_many_requests')),
  constraint gate_mode_is_known check (mode in ('strict', 'soft')),
  constraint gate_low_water_is_below_high_water check (low_water >= 0 and low_water < high_water)
);

create table tidegate.gate_event (
  queue text not null,
  epoch bigint not null,
  state text not null,
  depth bigint not null,
  cause text not null,
  actor text not null default session_user,
  at    timestamptz not null default clock_timestamp(),
  primary key (queue, epoch)
);

create table tidegate.kind (
  name                text primary key,
  flow                tidegate.flow not null,
  readiness_queue     text references tidegate.queue,
  tx_queue            text not null references tidegate.queue,
  response_threshold  integer not null default 1,
  readiness_ms        integer,
  processing_ms       integer,
  tx_confirmation_ms  integer,
  eta                 text not null default 'nominal',
  readiness_timeout   interval not null default '15 minutes',
  deadline            interval not null default '1 hour',
  response_timeout    interval not null default '30 minutes',
  retention           interval,
  created_at          timestamptz not null default clock_timestamp(),
  constraint kind_name_is_lower_snake_case check (name ~ '^[a-z][a-z0-9_]{0,62}$'),
  constraint kind_has_a_readiness_queue_iff_decrypt check ((flow = 'decrypt') = (readiness_queue is not null)),
  constraint kind_threshold_needs_a_decrypt check (response_threshold = 1 or (response_threshold > 1 and flow = 'decrypt')),
  constraint kind_readiness_time_is_zero_to_a_day check (readiness_ms between 0 and 86400000),
  constraint kind_processing_time_is_zero_to_a_day check (processing_ms between 0 and 86400000),
  constraint kind_confirmation_time_is_zero_to_a_day check (tx_confirmation_ms between 0 and 86400000),
  constraint kind_eta_is_known check (eta in ('nominal', 'observed')),
  constraint kind_readiness_timeout_is_within_the_deadline
    check (readiness_timeout > interval '0' and readiness_timeout <= deadline),
  constraint kind_response_timeout_is_positive check (response_timeout > interval '0'),
  constraint kind_retention_is_positive check (retention > interval '0')
);

create table tidegate.policy (
  kind                text not null references tidegate.kind on delete cascade,
  stage               tidegate.stage not null,
  attempts            integer not null,
  base_ms             integer not null default 500,
  factor              numeric not null default 2,
  cap_ms              integer not null,
  jitter_ms           integer not null default 250,
  timeout_mode        text not null default 'fixed',
  timeout_ms          integer not null,
  percentile          numeric not null default 0.99,
  safety_factor       numeric not null default 1.5,
  connect_ms          integer,
  first_byte_ms       integer,
  body_ms             integer,
  deadline_ms         integer not null,
  margin_ms           integer not null default 1000,
  retry_on            text[] not null default '{5xx,timeout,connect}',
  respect_retry_after boolean not null default true,
  semantics           text not null default 'at_least_once',
  dedup_window        interval not null default '24 hours',
  span_reorder        interval not null default '1 hour',
  hedge_after_ms      integer,
  hedge_max           integer not null default 0,
  hedge_share         numeric not null default 0.05,
  breaker_error_rate  numeric,
  breaker_latency_ms  integer,
  breaker_samples_min integer not null default 20,
  breaker_window_ms   integer not null default 10000,
  breaker_open_ms     integer not null default 5000,
  breaker_probes      integer not null default 1,
  version             integer not null default 1,
  primary key (kind, stage),
  constraint policy_attempts_is_one_to_a_thousand check (attempts between 1 and 1000),
  constraint policy_base_is_not_negative check (base_ms >= 0),
  constraint policy_factor_is_one_to_a_thousand check (factor between 1 and 1000),
  constraint policy_cap_is_at_least_base check (cap_ms >= base_ms),
  constraint policy_jitter_is_not_negative check (jitter_ms >= 0),
  constraint policy_timeout_mode_is_known check (timeout_mode in ('fixed', 'percentile', 'phased', 'adaptive')),
  constraint policy_timeout_is_positive check (timeout_ms > 0),
  constraint policy_percentile_is_a_share check (percentile > 0 and percentile < 1),
  constraint policy_safety_factor_is_one_to_a_hundred check (safety_factor between 1 and 100),
  constraint policy_phases_are_positive check (connect_ms > 0 and first_byte_ms > 0 and body_ms > 0),
  constraint policy_deadline_is_above_margin check (margin_ms >= 0 and deadline_ms > margin_ms),
  constraint policy_semantics_is_known check (semantics in ('at_most_once', 'at_least_once', 'exactly_once')),
  constraint policy_dedup_window_covers_reordering check (dedup_window >= span_reorder and span_reorder >= interval '0'),
  constraint policy_hedge_is_bounded check (hedge_after_ms > 0 and hedge_max >= 0 and hedge_share between 0 and 1),
  constraint policy_breaker_is_sane check (
    breaker_error_rate > 0 and breaker_error_rate <= 1 and breaker_latency_ms > 0 and breaker_samples_min > 0
    and breaker_window_ms > 0 and breaker_open_ms > 0 and breaker_probes > 0
  )
);

-- One row: what holds for every kind.
create table tidegate.setting (
  only_row       boolean primary key default true,
  min_seconds    integer not null default 1,
  max_seconds    integer not null default 300,
  safety_margin  numeric,
  initialised_at timestamptz,
  constraint setting_has_one_row check (only_row),
  constraint setting_min_seconds_is_positive check (min_seconds >= 1),
  constraint setting_min_is_at_most_max_seconds check (min_seconds <= max_seconds and max_seconds <= 86400),
  constraint setting_safety_margin_is_zero_to_one check (safety_margin between 0 and 1)
);

insert into tidegate.setting default values;

-- B(E): how long to wait before asking again, by how long the response has been awaited.
create table tidegate.response_backoff (
  from_elapsed interval primary key,
  seconds      integer not null,
  constraint response_backoff_starts_at_zero_or_later check (from_elapsed >= interval '0'),
  constraint response_backoff_seconds_is_positive check (seconds between 1 and 86400)
);

insert into tidegate.response_backoff (from_elapsed, seconds) values
  ('0 seconds', 4), ('60 seconds', 10), ('2 minutes', 30), ('5 minutes', 60), ('15 minutes', 300);
