-- What came of a call, for one function that settles all of them.

create type tidegate.call_outcome as (
  outcome       text,
  error         jsonb,
  after         interval,
  may_have_left boolean,
  reference     text,
  response      jsonb,
  took_ms       integer,
  hedges        integer
);

drop function if exists
  tidegate.settle_passed, tidegate.settle_snooze, tidegate.settle_failed, tidegate.settle_receipt,
  tidegate.settle_retry, tidegate.settle_rejected, tidegate.release;
