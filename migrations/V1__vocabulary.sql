-- The words of Tidegate as types. Everything lives in schema `tidegate`; pgmq's tables live in `pgmq`.

create schema if not exists tidegate;

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
  queue  text,
  msg_id bigint,
  nonce  bigint
);
