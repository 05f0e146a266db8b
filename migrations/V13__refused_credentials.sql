-- A downstream that refuses the credential of its calls (401, 403): requests wait until it is renewed. Policies whose
-- `retry_on` was never changed list the new class.

-- The triggers call functions of this version, which come after the migrations.
alter table tidegate.policy
  alter column retry_on set default '{5xx,timeout,connect,throttled,unauthorized,other}',
  disable trigger user;

update tidegate.policy
set retry_on = '{5xx,timeout,connect,throttled,unauthorized,other}'
where retry_on = '{5xx,timeout,connect,throttled,other}';

alter table tidegate.policy enable trigger user;

-- The functions before this version know no such class: what they did stays a matter of the earlier policy.
with changed as (
  update tidegate.policy_in_force as f
  set retry_on = p.retry_on, version = f.version + 1, since = tidegate.clock()
  from tidegate.policy as p
  where p.kind = f.kind and p.stage = f.stage and p.retry_on <> f.retry_on
  returning f.*
)
insert into tidegate.policy_change (at, kind, stage, version, cause, actor, stretch, in_force)
select c.since, c.kind, c.stage, c.version, 'declared', session_user, c.stretch, to_jsonb(c)
from changed as c;
