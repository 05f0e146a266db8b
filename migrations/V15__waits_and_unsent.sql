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

-- Responses under references that no request has: looked at in slices, deleted when no request can have them any more.
create sequence tidegate.inbox_cursor minvalue 0;
create index response_inbox_early_idx on tidegate.response_inbox (id) where not late;
create table tidegate.inbox_total (
  expired  bigint not null default 0,
  only_row boolean primary key default true,
  constraint inbox_total_has_one_row check (only_row)
);
insert into tidegate.inbox_total default values;
