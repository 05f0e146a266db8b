-- Policies that are enforced: what holds now, what was measured, breakers, and every change with its reason.

alter table tidegate.policy add column hedge_safe boolean not null default false;
alter table tidegate.policy add column heal_retry_rate numeric default 0.2;
alter table tidegate.policy add column heal_timeout_rate numeric default 0.05;
alter table tidegate.policy add column stretch_max numeric not null default 8;
alter table tidegate.policy add constraint policy_heal_rates_are_shares
  check (heal_retry_rate > 0 and heal_retry_rate <= 1 and heal_timeout_rate > 0 and heal_timeout_rate <= 1);
alter table tidegate.policy add constraint policy_stretch_is_one_to_a_hundred check (stretch_max between 1 and 100);

-- Nothing has looked at these until now: what was set is kept only where somebody has chosen it.
alter table tidegate.policy alter column retry_on set default '{5xx,timeout,connect,throttled,other}';
update tidegate.policy as p set retry_on = '{5xx,timeout,connect,throttled,other}' where p.retry_on = '{5xx,timeout,connect}';
update tidegate.policy as p
set
  hedge_safe = p.stage = 'readiness',
  hedge_max = case p.stage when 'readiness' then least(p.hedge_max, 10) else 0 end,
  -- Phases that do not fit have never cut a call off: the timeout goes on to be one for the whole call.
  timeout_mode = case
    when p.timeout_mode = 'phased' and coalesce(p.connect_ms::bigint + p.first_byte_ms + p.body_ms > p.timeout_ms, true)
      then 'fixed'
    else p.timeout_mode
  end;
update tidegate.policy as p set heal_timeout_rate = 0.005 where p.stage = 'readiness';
alter table tidegate.policy add constraint policy_hedges_only_what_is_safe check (hedge_max = 0 or hedge_safe);
alter table tidegate.policy add constraint policy_hedges_at_most_ten check (hedge_max <= 10);
alter table tidegate.policy add constraint policy_phases_fit_the_timeout check (
  timeout_mode <> 'phased'
  or (connect_ms is not null and first_byte_ms is not null and body_ms is not null
      and connect_ms::bigint + first_byte_ms + body_ms <= timeout_ms)
);

alter table tidegate.setting add column heal_window interval not null default '30 seconds';
alter table tidegate.setting add column heal_pause interval not null default '10 seconds';
alter table tidegate.setting add constraint setting_heal_window_is_a_second_to_ten_minutes
  check (heal_window between interval '1 second' and interval '10 minutes');
alter table tidegate.setting add constraint setting_heal_pause_is_zero_to_an_hour
  check (heal_pause between interval '0' and interval '1 hour');

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
  attempts_declared   integer not null,
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
  primary key (kind, stage),
  constraint policy_in_force_is_of_a_policy foreign key (kind, stage) references tidegate.policy on delete cascade
) with (fillfactor = 50);

-- Append-only: each version of a policy, with what brought it about. Attempts that began under an earlier one are judged
-- by it.
create table tidegate.policy_change (
  id        bigint generated always as identity primary key,
  at        timestamptz not null default clock_timestamp(),
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
  kind       text not null,
  stage      tidegate.stage not null,
  at         timestamptz not null,
  requests   bigint not null,
  calls      bigint not null,
  failures   bigint not null,
  timeouts   bigint not null,
  retries    bigint not null,
  slow       bigint not null,
  hedges     bigint not null,
  latency_ms integer[] not null,
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
  changed_at  timestamptz not null default clock_timestamp(),
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
  at      timestamptz not null default clock_timestamp()
);
create index breaker_event_kind_stage_at_idx on tidegate.breaker_event (kind, stage, at);

-- How many messages have come to each queue, as the last look at its load saw it.
create table tidegate.queue_load (
  queue     text primary key,
  at        timestamptz not null,
  last_id   bigint not null,
  congested boolean not null default false,
  rho       numeric
) with (fillfactor = 50);

insert into tidegate.maintenance (duty, period) values
  ('fold_calls', '1 second'), ('look_at_breakers', '1 second'), ('adjust_policies', '1 second');

-- What a claim finds at the breakers of its stage: kinds to leave and until when, kinds to probe and how many times, and how
-- many requests at most in all (null: no bound).
create type tidegate.breakers_seen as (
  shut       text[],
  shut_until timestamptz[],
  probing    text[],
  free       integer[],
  room       bigint
);
