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
    raise exception using errcode = 'TG013',
      message = format('the %s policy of kind "%s" is refused: %s', new.stage, new.kind, v_reason),
      hint = 'nothing has changed; settings of one policy may change together, in one update or one '
        '`tidegate config set`';
  end if;

  select * into v_was from tidegate.policy_in_force as f where f.kind = new.kind and f.stage = new.stage;
  perform tidegate_internal.policy_activate(
    new.kind, new.stage, coalesce(v_was.stretch, 1), coalesce(v_was.congested, false), 'declared', null,
    tidegate.clock()
  );
  if new.breaker_error_rate is null and new.breaker_latency_ms is null then
    -- Closed first, so that its time as open ends with it.
    perform tidegate_internal.breaker_flip(b.kind, b.stage, 'closed', b.epoch, 'removed', null, tidegate.clock())
    from tidegate.breaker as b
    where b.kind = new.kind and b.stage = new.stage;
    delete from tidegate.breaker as b where b.kind = new.kind and b.stage = new.stage;
  else
    insert into tidegate.breaker (kind, stage, epoch)
    select new.kind, new.stage, coalesce(max(e.epoch), 0)
    from tidegate.breaker_event as e
    where e.kind = new.kind and e.stage = new.stage
    on conflict do nothing;
  end if;
  return null;
end;
$$;

create or replace trigger policy_budget
  after insert or update on tidegate.policy
  for each row execute function tidegate_internal.policy_budget();
