-- Comments on the tables and types of the breakers, which the migrations create.

-- table breaker: One row for each policy with a breaker, or for a kind whose credential is refused; written by claims,
-- settles and duties.
--   kind: The kind.
--   stage: The stage.
--   state: closed: calls are made; open: none until open_until; half_open: only probes.
--   epoch: The number of its changes of state.
--   changed_at: When it last changed.
--   open_until: When it becomes half open; null unless open.
--   probes: In half_open: its probes that are under way or have succeeded.
--   successes: In half_open: probes that have succeeded.
--   probe_until: In half_open: the instant from which probes that are not settled count as lost.

-- table breaker_event: Append-only: every change of a breaker, with its figures.
--   id: Counts events.
--   kind: The kind.
--   stage: The stage.
--   epoch: The breaker's epoch after the change.
--   state: The state after the change.
--   cause: error rate, latency, unauthorized, open time over, probe failed or succeeded, removed.
--   figures: The figures that the change was based on.
--   at: When it changed.

-- index breaker_event_kind_stage_at_idx: Serves the share of time for which a breaker was open.

-- type breaker_limits: How the breakers of a stage limit a claim.
--   blocked: Kinds that the claim does not take.
--   blocked_until: For each of these, until when.
--   probed: Kinds of which the claim takes probes only.
--   probes_free: For each of these, how many probes at most.
--   requests_max: How many requests the claim takes at most in all; null: a kind of the queue has no limit.
