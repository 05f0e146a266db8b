-- Comments on the tables and types of this folder's subject.

comment on table tidegate.breaker is 'One row for each policy with a breaker; written by claims, settles and duties.';
comment on column tidegate.breaker.kind is 'The kind.';
comment on column tidegate.breaker.stage is 'The stage.';
comment on column tidegate.breaker.state is 'closed: sends go; open: none until open_until; half_open: only probes.';
comment on column tidegate.breaker.epoch is 'Counts its changes.';
comment on column tidegate.breaker.changed_at is 'When it last changed.';
comment on column tidegate.breaker.open_until is 'When it becomes half open; null unless open.';
comment on column tidegate.breaker.probes is 'Half open: calls let through that are under way or have succeeded.';
comment on column tidegate.breaker.successes is 'Half open: probes that have succeeded.';
comment on column tidegate.breaker.probe_until is 'When probes that were not settled count as lost.';

comment on table tidegate.breaker_event is 'Append-only: every change of a breaker, with its figures.';
comment on column tidegate.breaker_event.id is 'Counts events.';
comment on column tidegate.breaker_event.kind is 'The kind.';
comment on column tidegate.breaker_event.stage is 'The stage.';
comment on column tidegate.breaker_event.epoch is 'The breaker''s epoch from here on.';
comment on column tidegate.breaker_event.state is 'The state from here on.';
comment on column tidegate.breaker_event.cause is 'error rate, latency, open time over, probe failed or succeeded.';
comment on column tidegate.breaker_event.figures is 'The figures that the change was based on.';
comment on column tidegate.breaker_event.at is 'When.';
comment on index tidegate.breaker_event_kind_stage_at_idx is 'Serves the share of time for which a breaker was open.';

comment on type tidegate.breakers_seen is 'How the breakers of a stage limit a claim.';
comment on column tidegate.breakers_seen.shut is 'Kinds that the claim does not take.';
comment on column tidegate.breakers_seen.shut_until is 'Until when, for each.';
comment on column tidegate.breakers_seen.probing is 'Kinds that the claim takes probes of.';
comment on column tidegate.breakers_seen.free is 'How many probes, for each.';
comment on column tidegate.breakers_seen.room is 'How many requests at most in all; null: no limit.';
