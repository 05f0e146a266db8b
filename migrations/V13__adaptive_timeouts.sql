-- Adaptive timeouts: what a policy asks of its estimator, and the estimators themselves, one for the whole fleet.

alter table tidegate.policy add column adaptive_min_ms integer not null default 1;
alter table tidegate.policy add column adaptive_slo numeric default 0.01;
alter table tidegate.policy add column adaptive_interval_ms integer;
alter table tidegate.policy add column adaptive_k_margin integer not null default 1;
alter table tidegate.policy add constraint policy_adaptive_min_is_one_to_the_timeout
  check (adaptive_min_ms >= 1 and (timeout_mode <> 'adaptive' or adaptive_min_ms <= timeout_ms));
alter table tidegate.policy add constraint policy_adaptive_slo_is_a_share_up_to_a_half
  check (adaptive_slo > 0 and adaptive_slo <= 0.5);
alter table tidegate.policy add constraint policy_adaptive_interval_is_above_the_timeout_up_to_an_hour check (
  adaptive_interval_ms between 1 and 3600000 and (timeout_mode <> 'adaptive' or adaptive_interval_ms > timeout_ms)
);
alter table tidegate.policy add constraint policy_adaptive_k_margin_is_one_to_a_thousand
  check (adaptive_k_margin between 1 and 1000);

-- A claim says whether the timeout is the estimator's. What it says then is the bound, and nothing that was once learned.
alter table tidegate.policy_in_force add column timeout_mode text;
update tidegate.policy_in_force as f
set timeout_mode = p.timeout_mode, timeout_ms = case p.timeout_mode when 'adaptive' then p.timeout_ms else f.timeout_ms end
from tidegate.policy as p
where p.kind = f.kind and p.stage = f.stage;
alter table tidegate.policy_in_force alter column timeout_mode set not null;

-- The learned timeout of one dependency. `version` counts its closed and folded intervals: whoever has judged by another
-- one writes nothing. Nanoseconds are whole, so that nothing drifts on its way through here.
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
  constraint timeout_estimator_times_are_not_negative
    check (
      srtt_ns >= 0 and rttvar_ns >= 0 and srto_ns >= 0 and min_ns >= 0 and min_before_ns >= 0
      and usual_ns >= 0 and usual_before_ns >= 0
    ),
  constraint timeout_estimator_variance_is_of_a_mean check ((srtt_ns is null) = (rttvar_ns is null)),
  constraint timeout_estimator_failure_rate_is_a_share check (failure_rate between 0 and 1),
  -- Below infinity: not a number is above it.
  constraint timeout_estimator_loads_are_rates
    check (load_rps >= 0 and load_rps < 'infinity' and high_load_rps >= 0 and high_load_rps < 'infinity'),
  constraint timeout_estimator_remembers_a_load_in_high_load_only check (high_load_rps is null or state = 'high_load'),
  constraint timeout_estimator_counts_are_not_negative check (
    min_age >= 0 and high_load_intervals >= 0 and interval_no >= 0 and requests >= 0 and responses >= 0 and failures >= 0
    and late >= 0 and sum_ns >= 0
  )
) with (fillfactor = 50);

-- What each process last folded into an estimator: by its load the others know how much they are together.
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
) with (fillfactor = 50);
