-- The types of Tidegate. Callers, workers, operators and DBAs use schema `tidegate`; `tidegate_internal` has the
-- functions that only those of `tidegate` call; pgmq's tables are in `pgmq`.

create schema if not exists tidegate;
create schema if not exists tidegate_internal;

-- The time of everything that Tidegate does. Tests replace it, so as not to wait; no setting does.
create function tidegate.clock()
  returns timestamptz
  language sql
  volatile
  parallel safe
return clock_timestamp();

create type tidegate.request_status as enum (
  'queued',            -- waits for, or is under, its readiness check
  'processing',        -- may run; waits in its tx queue
  'tx_in_flight',      -- a worker holds it for sending
  'receipt_received',  -- the downstream took it; its response is awaited
  'completed',         -- terminal: answered
  'timed_out',         -- terminal: not ready, or not answered, in time
  'failure'            -- terminal: refused, rejected, cancelled or given up
);

create type tidegate.flow as enum ('decrypt', 'proof', 'direct');

create type tidegate.stage as enum ('readiness', 'tx');

-- One request of a queue that a worker holds, under the token of its claim.
create type tidegate.lease as (
  queue text,
  token bigint,
  id    uuid
);

-- The inputs of an ETA besides the place and position of a request.
create type tidegate.eta_terms as (
  tx_queue_size bigint,
  drain_tps     numeric,
  concurrency   integer,
  safety_margin numeric,
  min_seconds   integer,
  max_seconds   integer,
  jitter        numeric
);

-- When to ask for a request again, and its ETA at two probabilities.
create type tidegate.retry_after as (
  seconds integer,
  p50_ms  bigint,
  p90_ms  bigint
);

-- How many requests the gate of a queue and the quotas of kind and submitter admit: `room` more, 0 when one is closed;
-- `counted` are the gates that were counted, `depths` the depths behind them, before the submission.
create type tidegate.admission as (
  room    bigint,
  closed  boolean,
  counted text[],
  depths  bigint[]
);

-- How the breakers of a stage limit a claim.
create type tidegate.breaker_limits as (
  blocked       text[],
  blocked_until timestamptz[],
  probed        text[],
  probes_free   integer[],
  requests_max  bigint
);

-- How much a claim may take, and under which token.
create type tidegate.claim_limits as (
  batch        integer,
  kinds        text[],
  token        bigint,
  now          timestamptz,
  breakers     tidegate.breaker_limits,
  tat_ns       bigint,
  interval_ns  bigint,
  tolerance_ns bigint
);

-- The messages that a claim has taken, and how far it looked for them.
create type tidegate.taken_messages as (
  msg_ids   bigint[],
  ids       uuid[],
  reaped    boolean,
  mark      bigint,
  start     bigint,
  first     bigint,
  due_from  timestamptz,
  due_to    timestamptz,
  reaped_to timestamptz
);

-- A claimed request.
create type tidegate.claimed_request as (
  lease          tidegate.lease,
  id             uuid,
  kind           text,
  payload        jsonb,
  attempt        integer,
  attempts_max   integer,
  send_at        timestamptz,
  claimed_at     timestamptz,
  deadline_at    timestamptz,
  submitter      text,
  timeout_ms     integer,
  paced          boolean,
  hedge_after_ms integer,
  hedge_max      integer,
  hedge_share    numeric,
  connect_ms     integer,
  first_byte_ms  integer,
  body_ms        integer,
  policy_version integer,
  probe          boolean,
  adaptive       boolean
);
