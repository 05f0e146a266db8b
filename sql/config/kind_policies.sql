-- kind_policies: A kind's queues serve the right stages and list the kind, and a new kind gets a policy row for each
-- stage and a counter of its replays.

-- function kind_queues: Trigger on kind: queue stages (TG005), fixed name (TG002).
create or replace function tidegate_internal.kind_queues()
  returns trigger language plpgsql security definer as $$
begin
  perform tidegate_internal.require_queue(new.tx_queue, 'tx');
  if new.readiness_queue is not null then
    perform tidegate_internal.require_queue(new.readiness_queue, 'readiness');
  end if;
  if tg_op = 'UPDATE' and new.name <> old.name then
    raise exception using errcode = 'TG002', message = format('kind "%s" keeps its name', old.name),
      hint = format('make another kind (`tidegate kind add`), and when callers have moved there '
        '`tidegate kind remove %s --drain`', old.name);
  end if;
  return new;
end;
$$;

create or replace trigger kind_queues
  before insert or update on tidegate.kind
  for each row execute function tidegate_internal.kind_queues();

create or replace function tidegate_internal.kind_policies()
  returns trigger language plpgsql security definer as $$
begin
  insert into tidegate.policy (
    kind, stage, attempts, base_ms, factor, cap_ms, jitter_ms, timeout_ms, deadline_ms, margin_ms, hedge_safe,
    heal_timeout_rate
  )
  select new.name, s.stage, d.*, s.stage = 'readiness', case s.stage when 'readiness' then 0.005 else 0.05 end
  from unnest('{readiness,tx}'::tidegate.stage[]) as s(stage)
  cross join lateral tidegate.default_policy(new, s.stage) as d
  where s.stage = 'tx' or new.flow = 'decrypt'
  on conflict do nothing;
  update tidegate.queue as q
  set kinds = q.kinds || new.name
  where q.name in (new.readiness_queue, new.tx_queue) and new.name <> all(q.kinds);
  -- Of the queues that it has left, too: its requests stay there.
  update tidegate.queue as q
  set paused_kinds = array_remove(q.paused_kinds, new.name) || case when new.paused then array[new.name] end
  where new.name = any(q.kinds) and new.paused <> (new.name = any(q.paused_kinds));

  if tg_op = 'INSERT' then
    perform tidegate_internal.make_replays_counter(new.name);
  -- An unchanged policy follows its kind's deadlines.
  else
    update tidegate.policy as p
    set (attempts, base_ms, factor, cap_ms, jitter_ms, timeout_ms, deadline_ms, margin_ms) = (select d.*)
    from unnest('{readiness,tx}'::tidegate.stage[]) as s(stage)
    cross join lateral tidegate.default_policy(new, s.stage) as d
    cross join lateral tidegate.default_policy(old, s.stage) as o
    where p.kind = new.name and p.stage = s.stage
      and row(p.attempts, p.base_ms, p.factor, p.cap_ms, p.jitter_ms, p.timeout_ms, p.deadline_ms, p.margin_ms) = o
      and d is distinct from o;
  end if;
  return null;
end;
$$;

create or replace trigger kind_policies
  after insert or update of flow, readiness_queue, tx_queue, deadline, readiness_timeout, paused on tidegate.kind
  for each row execute function tidegate_internal.kind_policies();

-- function policy_removal: Trigger on policy: it stays while its kind does (TG002).
--
-- A kind without its policy could not be claimed: policies go with their kind, and not before.
create or replace function tidegate_internal.policy_removal()
  returns trigger language plpgsql security definer as $$
begin
  if exists (select from tidegate.kind as k where k.name = old.kind) then
    raise exception using errcode = 'TG002',
      message = format('the %s policy of kind "%s" stays as long as the kind', old.stage, old.kind),
      hint = 'change its columns instead';
  end if;
  return old;
end;
$$;

create or replace trigger policy_removal
  before delete on tidegate.policy
  for each row execute function tidegate_internal.policy_removal();

-- function kind_removal: Trigger on kind: a kind with requests is not deleted (TG002).
create or replace function tidegate_internal.kind_removal()
  returns trigger language plpgsql security definer
  set lock_timeout = '2s'
as $$
declare
  v_table text;
begin
  -- At commit, once more: a submission that had read the kind has committed by the time this lock is granted, and a
  -- later one finds no kind. Not earlier, because the lock blocks all writers.
  if tg_when = 'AFTER' then
    lock table tidegate.request in share mode;
  end if;
  if exists (select from tidegate.request as r where r.kind >= '' and r.kind = old.name) then
    raise exception using errcode = 'TG002',
      message = format('kind "%s" has requests and may not be deleted', old.name);
  end if;
  if tg_when = 'AFTER' then
    foreach v_table in array array[
      'finish_sample', 'answer_sample', 'kind_pace', 'eta_quality_total', 'poll_count', 'call_sample', 'call_second',
      'call_total', 'call_minute', 'submission_sample', 'transition_minute', 'retention_walk'
    ] loop
      execute format('delete from tidegate.%I where kind = $1', v_table) using old.name;
    end loop;
    execute format('drop sequence if exists tidegate.%I', 'replays_' || old.name);
  else
    -- Not at commit: by then this transaction may have added the kind again.
    update tidegate.queue as q
    set kinds = array_remove(q.kinds, old.name), paused_kinds = array_remove(q.paused_kinds, old.name)
    where old.name = any(q.kinds);
  end if;
  return old;
end;
$$;

create or replace trigger kind_removal
  before delete on tidegate.kind
  for each row execute function tidegate_internal.kind_removal();

select tidegate_internal.constraint_trigger(
  'kind_removal_at_commit', 'kind', 'delete', 'execute function tidegate_internal.kind_removal()'
);
