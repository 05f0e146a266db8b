-- policy_budget: Trigger on policy: refuses a policy beyond its budget (TG013), and puts any other in force.
--
-- It runs after the constraints of the row, whose messages are simpler.
create or replace function tidegate_internal.policy_budget()
  returns trigger language plpgsql security definer as $$
declare
  v_reason text := tidegate_internal.policy_refusal(new);
  v_was    tidegate.policy_in_force;
begin
  if v_reason is not null then
    raise exception using
      errcode = 'TG013',
      message = format('the %s policy of kind "%s" is refused: %s', new.stage, new.kind, v_reason),
      hint = 'nothing has changed; settings of one policy may change together, in one update or one `tidegate config '
      'set`';
  end if;

  select * into v_was from tidegate.policy_in_force as f where f.kind = new.kind and f.stage = new.stage;
  perform tidegate_internal.policy_activate(
    new.kind, new.stage, coalesce(v_was.stretch, 1), coalesce(v_was.congested, false), 'declared', null,
    tidegate.clock()
  );
  if new.breaker_error_rate is null and new.breaker_latency_ms is null then
    delete from tidegate.breaker as b where b.kind = new.kind and b.stage = new.stage;
  else
    insert into tidegate.breaker (kind, stage) values (new.kind, new.stage) on conflict do nothing;
  end if;
  return null;
end;
$$;

create or replace trigger policy_budget
  after insert or update on tidegate.policy
  for each row execute function tidegate_internal.policy_budget();

-- function kind_budget: Trigger: the stages fit the deadline of their kind (TG013).
--
-- At the end of the transaction, because a kind and its policies may change together.
create or replace function tidegate_internal.kind_budget()
  returns trigger language plpgsql security definer as $$
declare
  v_kind   text := case tg_table_name when 'kind' then to_jsonb(new) ->> 'name' else to_jsonb(new) ->> 'kind' end;
  v_reason text := tidegate_internal.kind_refusal(v_kind);
begin
  if v_reason is not null then
    raise exception using
      errcode = 'TG013',
      message = format('the policies of kind "%s" are refused: %s', v_kind, v_reason),
      hint = 'nothing has changed; a deadline and its policies may change together, in one transaction';
  end if;
  return null;
end;
$$;

select
  tidegate_internal.constraint_trigger(
    'kind_within_budget', 'policy', 'insert or update', 'execute function tidegate_internal.kind_budget()'
  ),
  tidegate_internal.constraint_trigger(
    'kind_within_budget', 'kind', 'insert or update of deadline', 'execute function tidegate_internal.kind_budget()'
  );

-- Policies from before there were versions.
select tidegate_internal.policy_activate(p.kind, p.stage, 1, false, 'declared', null, tidegate.clock())
from tidegate.policy as p
where not exists (select from tidegate.policy_in_force as f where f.kind = p.kind and f.stage = p.stage);

insert into tidegate.breaker (kind, stage)
select p.kind, p.stage from tidegate.policy as p
where num_nonnulls(p.breaker_error_rate, p.breaker_latency_ms) > 0
on conflict do nothing;
