-- breaker_of_credential: Opens the breaker of a stage whose downstream refuses the credential of its calls; returns
-- whether it did.
--
-- Every request would be refused until the credential is renewed, so a kind whose policy has no breaker gets one, which
-- goes when it closes. It opens when at least half of three or more calls in the window, and since it last closed, have
-- failed: a few requests that are forbidden do not stop the others.
create or replace function tidegate_internal.breaker_of_credential(
  p_kind text, p_stage tidegate.stage, p_now timestamptz
)
  returns boolean language plpgsql as $$
declare
  v_enough  constant integer := 3;
  v_breaker tidegate.breaker;
  v_calls   record;
begin
  select * into v_breaker from tidegate.breaker as b where b.kind = p_kind and b.stage = p_stage;
  if v_breaker.state <> 'closed' then
    return false;
  end if;
  select c.calls, c.failures into v_calls
  from tidegate.policy as p
  cross join lateral tidegate.calls_since(
    p_kind, p_stage,
    greatest(
      p_now - make_interval(secs => p.breaker_window_ms / 1000.0), v_breaker.changed_at,
      (select max(e.at) from tidegate.breaker_event as e where e.kind = p_kind and e.stage = p_stage)
    )
  ) as c
  where p.kind = p_kind and p.stage = p_stage;
  if (v_calls.calls >= v_enough and v_calls.failures * 2 >= v_calls.calls) is not true then
    return false;
  end if;
  insert into tidegate.breaker (kind, stage, epoch)
  select p_kind, p_stage, coalesce(max(e.epoch), 0)
  from tidegate.breaker_event as e
  where e.kind = p_kind and e.stage = p_stage
  on conflict do nothing;
  return tidegate_internal.breaker_flip(
    p_kind, p_stage, 'open',
    (select b.epoch from tidegate.breaker as b where b.kind = p_kind and b.stage = p_stage and b.state = 'closed'),
    'unauthorized', jsonb_build_object('calls', v_calls.calls, 'failures', v_calls.failures), p_now
  );
end;
$$;
