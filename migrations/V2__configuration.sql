-- The configuration: queues with their limits, kinds with their times, keys and callbacks, policies, settings; and the
-- record of its changes.

create table tidegate.queue (
  name            text primary key,
  stage           tidegate.stage not null,
  per_seconds     numeric,
  burst           integer not null default 1,
  max_concurrency integer,
  paused          boolean not null default false,
  created_at      timestamptz not null default tidegate.clock(),
  kinds           text[] not null default '{}',
  constraint queue_name_is_lower_snake_case check (name ~ '^[a-z][a-z0-9_]{0,39}$'),
  constraint queue_per_seconds_is_zero_to_a_million check (per_seconds = 0 or per_seconds between 0.0001 and 1000000),
  constraint queue_burst_is_at_least_one check (burst between 1 and 10000),
  constraint queue_max_concurrency_is_not_negative check (max_concurrency >= 0),
  constraint queue_readiness_is_limited_by_concurrency check (stage = 'tx' or per_seconds is null),
  constraint queue_tx_is_limited_by_rate check (stage = 'readiness' or max_concurrency is null)
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
  slo_p99_ms          integer,
  created_at          timestamptz not null default tidegate.clock(),
  callback_url        text,
  key_mode            text not null default 'caller',
  key_paths           text[],
  key_bucket          interval,
  key_scope           text not null default 'submitter',
  set_paths           text[],
  reject_details      boolean not null default false,
  -- The name of its counter, `replays_NAME`, has at most 63 characters.
  constraint kind_name_is_lower_snake_case check (name ~ '^[a-z][a-z0-9_]{0,54}$'),
  -- `/v1/admin/…` and `/v1/responses` are paths of the HTTP API.
  constraint kind_name_is_not_admin_or_responses check (name not in ('admin', 'responses')),
  constraint kind_has_a_readiness_queue_iff_decrypt check ((flow = 'decrypt') = (readiness_queue is not null)),
  constraint kind_threshold_needs_a_decrypt check (
    response_threshold = 1 or (response_threshold > 1 and flow = 'decrypt')
  ),
  constraint kind_readiness_time_is_zero_to_a_day check (readiness_ms between 0 and 86400000),
  constraint kind_processing_time_is_zero_to_a_day check (processing_ms between 0 and 86400000),
  constraint kind_confirmation_time_is_zero_to_a_day check (tx_confirmation_ms between 0 and 86400000),
  constraint kind_eta_is_known check (eta in ('nominal', 'observed')),
  constraint kind_readiness_timeout_is_within_the_deadline
    check (readiness_timeout > interval '0' and readiness_timeout <= deadline),
  constraint kind_response_timeout_is_positive check (response_timeout > interval '0'),
  constraint kind_slo_is_a_millisecond_to_a_day check (slo_p99_ms between 1 and 86400000),
  constraint kind_retention_is_positive check (retention > interval '0'),
  constraint kind_callback_url_is_http_of_at_most_2000_characters
    check (callback_url ~ '^https?://' and length(callback_url) <= 2000),
  constraint kind_key_mode_is_known check (key_mode in ('caller', 'natural', 'proxy', 'required')),
  constraint kind_key_scope_is_known check (key_scope in ('submitter', 'kind')),
  constraint kind_has_key_paths_iff_its_keys_are_natural
    check ((key_mode = 'natural') = (coalesce(cardinality(key_paths), 0) > 0)),
  constraint kind_key_bucket_is_a_positive_time_of_made_keys
    check (key_bucket is null or (key_mode in ('natural', 'proxy') and key_bucket > interval '0')),
  -- In lists that are written as text, a comma ends a path.
  constraint kind_key_paths_are_1_to_16_lists_of_members_joined_by_dots check (
    cardinality(key_paths) = 0
    or (array_to_string(key_paths, '', '') !~ '\n'
        and array_to_string(key_paths, chr(10), '') ~ '^[^.,\n]+(\.[^.,\n]+)*(\n[^.,\n]+(\.[^.,\n]+)*){0,15}$')
  ),
  constraint kind_set_paths_are_1_to_16_lists_of_members_joined_by_dots check (
    cardinality(set_paths) = 0
    or (array_to_string(set_paths, '', '') !~ '\n'
        and array_to_string(set_paths, chr(10), '') ~ '^[^.,\n]+(\.[^.,\n]+)*(\n[^.,\n]+(\.[^.,\n]+)*){0,15}$')
  )
);

create table tidegate.policy (
  kind                 text not null references tidegate.kind on delete cascade,
  stage                tidegate.stage not null,
  attempts             integer not null,
  base_ms              integer not null default 500,
  factor               numeric not null default 2,
  cap_ms               integer not null,
  jitter_ms            integer not null default 250,
  timeout_mode         text not null default 'fixed',
  timeout_ms           integer not null,
  percentile           numeric not null default 0.99,
  safety_factor        numeric not null default 1.5,
  connect_ms           integer,
  first_byte_ms        integer,
  body_ms              integer,
  deadline_ms          integer not null,
  margin_ms            integer not null default 1000,
  retry_on             text[] not null default '{5xx,timeout,connect,throttled,other}',
  respect_retry_after  boolean not null default true,
  semantics            text not null default 'at_least_once',
  dedup_window         interval not null default '24 hours',
  span_reorder         interval not null default '1 hour',
  hedge_after_ms       integer,
  hedge_max            integer not null default 0,
  hedge_share          numeric not null default 0.05,
  breaker_error_rate   numeric,
  breaker_latency_ms   integer,
  breaker_samples_min  integer not null default 20,
  breaker_window_ms    integer not null default 10000,
  breaker_open_ms      integer not null default 5000,
  breaker_probes       integer not null default 1,
  version              integer not null default 1,
  hedge_safe           boolean not null default false,
  heal_retry_rate      numeric default 0.2,
  heal_timeout_rate    numeric default 0.05,
  stretch_max          numeric not null default 8,
  adaptive_min_ms      integer not null default 1,
  adaptive_slo         numeric default 0.01,
  adaptive_interval_ms integer,
  adaptive_k_margin    integer not null default 1,
  adaptive_alarm_samples  integer not null default 32,
  adaptive_best_case      text not null default 'usual',
  adaptive_interval_calls integer,
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
  constraint policy_phases_fit_the_timeout check (
    timeout_mode <> 'phased'
    or (connect_ms is not null and first_byte_ms is not null and body_ms is not null
        and connect_ms::bigint + first_byte_ms + body_ms <= timeout_ms)
  ),
  constraint policy_deadline_is_above_margin check (margin_ms >= 0 and deadline_ms > margin_ms),
  constraint policy_semantics_is_known check (semantics in ('at_most_once', 'at_least_once', 'exactly_once')),
  constraint policy_dedup_window_is_positive check (dedup_window > interval '0'),
  constraint policy_dedup_window_covers_reordering check (
    dedup_window >= span_reorder and span_reorder >= interval '0'
  ),
  constraint policy_hedge_is_bounded check (hedge_after_ms > 0 and hedge_max >= 0 and hedge_share between 0 and 1),
  constraint policy_hedges_only_what_is_safe check (hedge_max = 0 or hedge_safe),
  constraint policy_hedges_at_most_ten check (hedge_max <= 10),
  constraint policy_breaker_is_sane check (
    breaker_error_rate > 0 and breaker_error_rate <= 1 and breaker_latency_ms > 0 and breaker_samples_min > 0
    and breaker_window_ms > 0 and breaker_open_ms > 0 and breaker_probes > 0
  ),
  constraint policy_heal_rates_are_shares
    check (heal_retry_rate > 0 and heal_retry_rate <= 1 and heal_timeout_rate > 0 and heal_timeout_rate <= 1),
  constraint policy_stretch_is_one_to_a_hundred check (stretch_max between 1 and 100),
  constraint policy_adaptive_min_is_one_to_the_timeout
    check (adaptive_min_ms >= 1 and (timeout_mode <> 'adaptive' or adaptive_min_ms <= timeout_ms)),
  constraint policy_adaptive_slo_is_a_share_up_to_a_half check (adaptive_slo > 0 and adaptive_slo <= 0.5),
  constraint policy_adaptive_interval_is_above_the_timeout_up_to_an_hour check (
    adaptive_interval_ms between 1 and 3600000 and (timeout_mode <> 'adaptive' or adaptive_interval_ms > timeout_ms)
  ),
  constraint policy_adaptive_k_margin_is_one_to_a_thousand check (adaptive_k_margin between 1 and 1000),
  constraint policy_adaptive_alarm_samples_is_one_to_a_thousand check (adaptive_alarm_samples between 1 and 1000),
  constraint policy_adaptive_best_case_is_known check (adaptive_best_case in ('usual', 'minimum')),
  constraint policy_adaptive_interval_calls_is_one_to_a_million check (adaptive_interval_calls between 1 and 1000000)
);

-- One row: the settings of every kind.
create table tidegate.setting (
  only_row        boolean primary key default true constraint setting_has_one_row check (only_row),
  min_seconds     integer not null default 1,
  max_seconds     integer not null default 300,
  safety_margin   numeric not null default 0.2,
  initialised_at  timestamptz,
  jitter          numeric not null default 0.1,
  heal_window     interval not null default '30 seconds',
  heal_pause      interval not null default '10 seconds',
  -- How long events of gates, breakers and policies are kept; null: forever.
  event_retention interval,
  constraint setting_min_seconds_is_positive check (min_seconds >= 1),
  constraint setting_min_is_at_most_max_seconds check (min_seconds <= max_seconds and max_seconds <= 86400),
  constraint setting_safety_margin_is_zero_to_one check (safety_margin between 0 and 1),
  constraint setting_jitter_is_zero_to_one check (jitter between 0 and 1),
  constraint setting_heal_window_is_a_second_to_ten_minutes
    check (heal_window between interval '1 second' and interval '10 minutes'),
  constraint setting_heal_pause_is_zero_to_an_hour check (heal_pause between interval '0' and interval '1 hour'),
  constraint setting_event_retention_is_at_least_an_hour check (event_retention >= interval '1 hour')
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

-- Append-only: one row for each column that changed.
create table tidegate.config_change (
  id           bigint generated always as identity primary key,
  at           timestamptz not null default tidegate.clock(),
  actor        text not null default session_user,
  on_behalf_of text default left(nullif(current_setting('tidegate.actor', true), ''), 200),
  operation    text not null,
  table_name   text not null,
  row_key      text not null,
  column_name  text not null,
  old_value    text,
  new_value    text,
  constraint config_change_operation_is_known check (operation in ('insert', 'update', 'delete')),
  constraint config_change_changes_something check (old_value is distinct from new_value)
);
