-- Comments on the tables and types of this folder's subject.

-- table breaker: One row for each policy with a breaker; written by claims, settles and duties.
--   kind: The kind.
--   stage: The stage.
--   state: closed: sends go; open: none until open_until; half_open: only probes.
--   epoch: Counts its changes.
--   changed_at: When it last changed.
--   open_until: When it becomes half open; null unless open.
--   probes: Half open: calls let through that are under way or have succeeded.
--   successes: Half open: probes that have succeeded.
--   probe_until: When probes that were not settled count as lost.

-- table breaker_event: Append-only: every change of a breaker, with its figures.
--   id: Counts events.
--   kind: The kind.
--   stage: The stage.
--   epoch: The breaker's epoch from here on.
--   state: The state from here on.
--   cause: error rate, latency, open time over, probe failed or succeeded.
--   figures: The figures that the change was based on.
--   at: When.

-- index breaker_event_kind_stage_at_idx: Serves the share of time for which a breaker was open.

-- type breakers_seen: How the breakers of a stage limit a claim.
--   shut: Kinds that the claim does not take.
--   shut_until: Until when, for each.
--   probing: Kinds that the claim takes probes of.
--   free: How many probes, for each.
--   room: How many requests at most in all; null: no limit.
