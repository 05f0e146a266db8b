-- breaker_flip: Changes the state of a breaker, with one new epoch, one event and one notification.
--
-- The calling function chooses the change: closed → open, open → half_open, half_open → open or closed. Only if the
-- epoch is still `p_epoch`, the one whose figures it has read: of several concurrent decisions about an epoch, one
-- changes the breaker. Returns whether this call did. When the breaker closes, the workers of the kind's queue are
-- notified; probes need no notification, because the snoozed requests come due by themselves.
create or replace function tidegate_internal.breaker_flip(
  p_kind text, p_stage tidegate.stage, p_state text, p_epoch bigint, p_cause text, p_figures jsonb,
  p_now timestamptz
)
  returns boolean language plpgsql as $$
declare
  v_breaker tidegate.breaker;
begin
  update tidegate.breaker as b
  set
    state = p_state, epoch = b.epoch + 1, changed_at = p_now, probes = 0, successes = 0, probe_until = null,
    open_until = case when p_state = 'open' then p_now + make_interval(secs => p.breaker_open_ms / 1000.0) end
  from tidegate.policy as p
  where b.kind = p_kind and b.stage = p_stage and b.epoch = p_epoch and b.state <> p_state
    and p.kind = b.kind and p.stage = b.stage
  returning b.* into v_breaker;
  if not found then
    return false;
  end if;

  insert into tidegate.breaker_event (kind, stage, epoch, state, cause, figures, at)
  values (p_kind, p_stage, v_breaker.epoch, p_state, p_cause, p_figures, p_now);
  perform pg_notify('tidegate_breaker', json_strip_nulls(json_build_object(
    'kind', p_kind, 'stage', p_stage, 'state', p_state, 'epoch', v_breaker.epoch, 'open_until', v_breaker.open_until
  ))::text);
  if p_state = 'closed' then
    perform pg_notify('tidegate_queue', q.name)
    from tidegate.kind as k
    cross join lateral (select case p_stage when 'tx' then k.tx_queue else k.readiness_queue end as name) as q
    where k.name = p_kind and q.name is not null;
  end if;
  return true;
end;
$$;
