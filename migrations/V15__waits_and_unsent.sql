-- Checks that say "not yet" and sends that certainly did not leave use no attempt of their policy.

alter table tidegate.request add column readiness_waits integer not null default 0;
alter table tidegate.request add column checks_failing_since timestamptz;
alter table tidegate.request add column tx_unsent integer not null default 0;

-- Lengthened backoffs take no attempt away, so what is declared is in force.
update tidegate.policy_in_force set attempts = attempts_declared;
alter table tidegate.policy_in_force drop column attempts_declared;
alter table tidegate.policy_in_force add column margin_ms integer;
update tidegate.policy_in_force as f
set margin_ms = p.margin_ms
from tidegate.policy as p
where p.kind = f.kind and p.stage = f.stage;
alter table tidegate.policy_in_force alter column margin_ms set not null;

-- A worker takes the kinds that it has stages for, and says which; null: all.
alter table tidegate.worker add column kinds text[];
