-- take_turns: Takes up to `p_limit` waiting messages out of a fair queue, for a claim: at each the one whose turn has
-- the smallest (tag, no).
--
-- Returns what `take_messages` returns. Requests of a lease that has run out are put back first, and then the claim
-- takes nothing (`reaped`), because it holds their rows; the next one serves them in their turn.
--
-- The lock `turns` is held to the end of the transaction, so services come in the order of commits.
create or replace function tidegate_internal.take_turns(
  p_queue text, p_limit integer, p_now timestamptz, p_kinds text[]
)
  returns tidegate.taken_messages language plpgsql as $$
declare
  v_setting constant text := 'tidegate.turned_' || p_queue;
  v_taken   tidegate.taken_messages;
  v_now     timestamptz;
  v_marks   boolean;
  v_raises  boolean;
  v_served  record;
  v_ids     text[];
  v_left    integer := p_limit;
  v_locked  bigint[] := '{}';
  v_keys    bigint[] := '{}';
  v_passed  bigint[] := '{}';
  v_folded  boolean := false;
  v_to      bigint;
begin
  perform tidegate_internal.require_all_kinds(p_queue, p_kinds) where p_kinds is not null;
  v_taken.reaped_to := tidegate_internal.lease_watermark(p_queue);
  if exists (
    select from tidegate.claim as c where c.queue = p_queue and c.until > v_taken.reaped_to and c.until <= p_now
  ) then
    v_taken.reaped := (tidegate_internal.reap(p_queue, 0, p_now, null)).reaped;
    if v_taken.reaped then
      return v_taken;
    end if;
  end if;

  perform pg_advisory_xact_lock(tidegate.queue_lock_key(p_queue, 'turns'));
  v_now := tidegate.clock();
  -- A transaction raises marks once: what it has changed before may be rolled back, and would lie below them.
  v_marks := current_setting(v_setting, true) is distinct from pg_current_xact_id()::text;
  perform set_config(v_setting, pg_current_xact_id()::text, true);
  v_raises := v_marks;
  -- Of a burst only so much, because all claims wait: the rest is folded by the next ones.
  for v_batch in 1 .. 5 loop
    exit when tidegate_internal.fold_arrivals(p_queue, true, v_now, v_raises) < 2000;
    v_raises := false;
  end loop;
  if v_raises then
    perform tidegate_internal.raise_turns(p_queue);
  end if;

  for v_pass in 1 .. 20 loop
    v_served := tidegate_internal.serve_turns(
      p_queue, v_left, case v_pass when 1 then v_left else greatest(v_left, 64) end, v_now, v_locked, v_keys, v_passed
    );
    v_taken.msg_ids := v_taken.msg_ids || v_served.msg_ids;
    v_ids := v_ids || v_served.requests;
    v_to := greatest(v_to, v_served.served_to);
    v_left := p_limit - coalesce(cardinality(v_taken.msg_ids), 0);
    exit when v_left = 0;
    if v_served.msg_ids is null and v_served.ended = 0 and cardinality(v_served.passed) = cardinality(v_passed)
      and cardinality(v_served.locked) = cardinality(v_locked)
    then
      exit when v_folded;
      v_folded := true;
      perform tidegate_internal.move_passed(p_queue, v_passed, v_to);
      exit when tidegate_internal.fold_arrivals(p_queue, false, v_now, false) = 0;
    end if;
    v_locked := v_served.locked;
    v_keys := v_served.locked_keys;
    v_passed := v_served.passed;
  end loop;
  perform tidegate_internal.move_passed(p_queue, v_passed, v_to);
  v_taken.ids := tidegate_internal.message_request_ids(v_ids);
  return v_taken;
end;
$$;
