-- Policies that are enforced: what holds now, what was measured, breakers, and every change with its reason; learned
-- timeouts.

-- What holds now, one row a policy: the declared one, stretched while its stage heals or its queue is congested, with
-- the timeout that its mode has found. Attempts begin under it.
create table tidegate.policy_in_force (
  kind                text not null,
  stage               tidegate.stage not null,
  version             integer not null,
  since               timestamptz not null,
  stretch             numeric not null default 1,
  congested           boolean not null default false,
  attempts            integer not null,
  base_ms             integer not null,
  factor              numeric not null,
  cap_ms              integer not null,
  jitter_ms           integer not null,
  timeout_ms          integer not null,
  deadline_ms         integer not null,
  retry_on            text[] not null,
  respect_retry_after boolean not null,
  semantics           text not null,
  hedge_after_ms      integer,
  hedge_max           integer not null,
  hedge_share         numeric not null,
  connect_ms          integer,
  first_byte_ms       integer,
  body_ms             integer,
  timeout_mode        text not null,
  margin_ms           integer not null,
  primary key (kind, stage),
  constraint policy_in_force_is_of_a_policy foreign key (kind, stage) references tidegate.policy on delete cascade
) with (fillfactor = 50);

-- Append-only: each version of a policy, with what brought it about. Attempts that began under an earlier one are
-- judged by it.
create table tidegate.policy_change (
  id        bigint generated always as identity primary key,
  at        timestamptz not null default tidegate.clock(),
  kind      text not null,
  stage     tidegate.stage not null,
  version   integer not null,
  cause     text not null,
  actor     text,
  stretch   numeric not null,
  figures   jsonb,
  in_force  jsonb not null,
  constraint policy_change_cause_is_known
    check (cause in ('declared', 'retry_rate', 'timeout_rate', 'congestion', 'recovered'))
);
create index policy_change_kind_stage_version_idx on tidegate.policy_change (kind, stage, version);

-- What was observed when the baseline of contracts was recorded last.
create table tidegate.contract_baseline (
  kind         text not null,
  stage        tidegate.stage not null,
  member       text not null,
  value        numeric not null,
  recorded_at  timestamptz not null default tidegate.clock(),
  actor        text not null default session_user,
  on_behalf_of text,
  primary key (kind, stage, member),
  constraint contract_baseline_is_of_a_policy foreign key (kind, stage) references tidegate.policy on delete cascade
);

-- Append-only: the calls that one settle reported, one row a kind; folded by the second.
create table tidegate.call_sample (
  kind       text not null,
  stage      tidegate.stage not null,
  at         timestamptz not null,
  requests   integer not null,
  calls      integer not null,
  failures   integer not null,
  timeouts   integer not null,
  retries    integer not null,
  slow       integer not null,
  hedges     integer not null,
  latency_ms integer[] not null
);
create index call_sample_kind_stage_at_idx on tidegate.call_sample (kind, stage, at);

-- The calls of the last minutes by the second, with some of their latencies.
create table tidegate.call_second (
  like tidegate.call_sample,
  primary key (kind, stage, at)
) with (fillfactor = 50);

create table tidegate.call_total (
  kind     text not null,
  stage    tidegate.stage not null,
  requests bigint not null,
  calls    bigint not null,
  failures bigint not null,
  timeouts bigint not null,
  retries  bigint not null,
  hedges   bigint not null,
  primary key (kind, stage)
) with (fillfactor = 50);

-- One row for each policy that asks for a breaker.
create table tidegate.breaker (
  kind        text not null,
  stage       tidegate.stage not null,
  state       text not null default 'closed',
  epoch       bigint not null default 0,
  changed_at  timestamptz not null default tidegate.clock(),
  open_until  timestamptz,
  probes      integer not null default 0,
  successes   integer not null default 0,
  probe_until timestamptz,
  primary key (kind, stage),
  constraint breaker_is_of_a_policy foreign key (kind, stage) references tidegate.policy on delete cascade,
  constraint breaker_state_is_known check (state in ('closed', 'open', 'half_open')),
  constraint breaker_is_open_until_a_time check ((state = 'open') = (open_until is not null))
) with (fillfactor = 50);

create table tidegate.breaker_event (
  id      bigint generated always as identity primary key,
  kind    text not null,
  stage   tidegate.stage not null,
  epoch   bigint not null,
  state   text not null,
  cause   text not null,
  figures jsonb,
  at      timestamptz not null default tidegate.clock()
);
create index breaker_event_kind_stage_at_idx on tidegate.breaker_event (kind, stage, at);

-- How many messages have come to each queue, at the last evaluation of its load.
create table tidegate.queue_load (
  queue     text primary key,
  at        timestamptz not null,
  last_id   bigint not null,
  congested boolean not null default false,
  rho       numeric
) with (fillfactor = 50);

-- The learned timeout of one dependency. `version` counts its closed and folded intervals: a fold that
-- started from another version writes nothing. Nanoseconds are whole numbers, to avoid rounding drift.
create table tidegate.timeout_estimator (
  kind                text not null,
  stage               tidegate.stage not null,
  version             bigint not null,
  state               text not null,
  srtt_ns             bigint,
  rttvar_ns           bigint,
  srto_ns             bigint,
  k_margin            integer not null,
  timeout_ns          bigint not null,
  failure_rate        float8,
  load_rps            float8,
  min_ns              bigint,
  min_before_ns       bigint,
  usual_ns            bigint,
  usual_before_ns     bigint,
  min_age             integer not null,
  high_load_intervals integer not null default 0,
  high_load_rps       float8,
  interval_no         bigint not null,
  began_at            timestamptz not null,
  requests            bigint not null,
  responses           bigint not null,
  failures            bigint not null,
  late                bigint not null,
  sum_ns              bigint not null,
  updated_at          timestamptz not null,
  primary key (kind, stage),
  constraint timeout_estimator_is_of_a_policy foreign key (kind, stage) references tidegate.policy on delete cascade,
  constraint timeout_estimator_version_is_positive check (version > 0),
  constraint timeout_estimator_state_is_known check (state in ('normal', 'high_load')),
  constraint timeout_estimator_k_margin_is_at_least_one check (k_margin >= 1),
  constraint timeout_estimator_timeout_is_positive check (timeout_ns > 0),
  constraint timeout_estimator_times_are_not_negative check (
    srtt_ns >= 0 and rttvar_ns >= 0 and srto_ns >= 0 and min_ns >= 0 and min_before_ns >= 0 and usual_ns >= 0
    and usual_before_ns >= 0
  ),
  constraint timeout_estimator_variance_is_of_a_mean check ((srtt_ns is null) = (rttvar_ns is null)),
  constraint timeout_estimator_failure_rate_is_a_share check (failure_rate between 0 and 1),
  -- Below infinity: not a number is above it.
  constraint timeout_estimator_loads_are_rates
    check (load_rps >= 0 and load_rps < 'infinity' and high_load_rps >= 0 and high_load_rps < 'infinity'),
  constraint timeout_estimator_remembers_a_load_in_high_load_only check (high_load_rps is null or state = 'high_load'),
  constraint timeout_estimator_counts_are_not_negative check (
    min_age >= 0 and high_load_intervals >= 0 and interval_no >= 0 and requests >= 0 and responses >= 0
    and failures >= 0 and late >= 0 and sum_ns >= 0
  )
);

-- What each process last folded into an estimator: its load gives the others that of the fleet.
create table tidegate.timeout_report (
  kind         text not null,
  stage        tidegate.stage not null,
  worker       text not null,
  sequence     bigint not null,
  at           timestamptz not null,
  requests     bigint not null,
  responses    bigint not null,
  failures     bigint not null,
  min_ns       bigint,
  mean_ns      bigint,
  deviation_ns bigint,
  load_rps     float8 not null,
  in_flight    bigint not null,
  reported     bigint not null default 0,
  primary key (kind, stage, worker),
  constraint timeout_report_is_of_a_policy foreign key (kind, stage) references tidegate.policy on delete cascade,
  constraint timeout_report_times_are_not_negative check (min_ns >= 0 and mean_ns >= 0 and deviation_ns >= 0),
  constraint timeout_report_load_is_a_rate check (load_rps >= 0 and load_rps < 'infinity'),
  constraint timeout_report_counts_are_not_negative
    check (sequence >= 0 and requests >= 0 and responses >= 0 and failures >= 0 and reported >= 0 and in_flight >= 0)
);
