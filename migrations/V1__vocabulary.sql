-- The words of Tidegate as types. Callers, workers, operators and DBAs use schema `tidegate`; `tidegate_internal` has
-- what only its functions call; pgmq's tables live in `pgmq`.

create schema if not exists tidegate;
create schema if not exists tidegate_internal;

-- The time, for everything that Tidegate does. Tests replace it, so as not to wait; it is no setting.
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

-- What a worker holds: one message, under the nonce its claim wrote.
create type tidegate.lease as (
  queue text,
  token bigint,
  id    uuid
);

-- What an ETA depends on besides the place and position of a request.
create type tidegate.eta_terms as (
  tx_queue_size bigint,
  drain_tps     numeric,
  concurrency   integer,
  safety_margin numeric,
  min_seconds   integer,
  max_seconds   integer,
  jitter        numeric
);

-- When to ask for a request again, and with what probability the answer is there by when.
create type tidegate.retry_after as (
  seconds integer,
  p50_ms  bigint,
  p90_ms  bigint
);

-- What a submission finds at the gate of its queue and at the caps of its kind and submitter. `room`: how many more
-- they let in, none when one is closed; `counted`: those that were counted, `depths` how deep it was behind them,
-- before the submission.
create type tidegate.admission as (
  room    bigint,
  closed  boolean,
  counted text[],
  depths  bigint[]
);

-- What a claim finds at the breakers of its stage: kinds to leave and until when, kinds to probe and how many times,
-- and how many requests at most in all (null: no bound).
create type tidegate.breakers_seen as (
  shut       text[],
  shut_until timestamptz[],
  probing    text[],
  free       integer[],
  room       bigint
);
