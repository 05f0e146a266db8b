-- gate_wait: The seconds after which to submit again requests that the gates have no room for now, with jitter.
--
-- The time in which the depth behind a gate falls far enough: to the low mark, if it is closed, and until there is room
-- for all of `p_count`. At the rate of its queue (see `gate_rate`); requests of one kind or submitter leave with their
-- share of the whole queue. At least a second, and until the snoozed messages come due without which the depth will not
-- fall so far; of several gates the longest. While nothing moves, and at a gate that is forced, no less than the
-- response backoff after the same time (see `response_backoff_seconds`), because the end of that is unknown.
create or replace function tidegate_internal.gate_wait(p_kind tidegate.kind, p_submitter text, p_count bigint)
  returns integer language plpgsql volatile as $$
declare
  v_now     constant timestamptz := tidegate.clock();
  v_entry   constant text := coalesce(p_kind.readiness_queue, p_kind.tx_queue);
  v_setting tidegate.setting;
  v_gate    tidegate.gate;
  v_depth   bigint;
  v_above   numeric;
  v_share   numeric;
  v_queue   record;
  v_seconds numeric;
begin
  select * into v_setting from tidegate.setting as s;
  v_seconds := greatest(v_setting.min_seconds, 1);
  for v_gate in
    select g.*
    from tidegate.gate as g
    where g.queue in (p_kind.readiness_queue, p_kind.tx_queue) or g.kind = p_kind.name or g.submitter = p_submitter
  loop
    continue when v_gate.state = 'accepting' and (v_gate.forced or v_gate.queue <> v_entry);
    v_depth := tidegate_internal.gate_depth(v_gate);
    if v_gate.queue <> v_entry then
      v_above := v_depth - v_gate.low_water;
    else
      -- At the mark it is as good as closed.
      v_above := v_depth - case
        when v_gate.state = 'accepting' and v_depth < v_gate.high_water then v_gate.high_water - p_count
        else least(v_gate.low_water, v_gate.high_water - p_count)
      end;
    end if;
    for v_queue in
      select q.name, tidegate_internal.gate_rate(v_gate, q, v_depth) as rate, p.still_since
      from tidegate.queue as q
      left join tidegate.queue_pace as p on p.queue = q.name and p.observed_at > v_now - interval '30 seconds'
      where q.name in (p_kind.readiness_queue, p_kind.tx_queue) and (v_gate.queue is null or q.name = v_gate.queue)
    loop
      v_share := case
        when v_gate.queue is null and v_depth > 0 then
          v_above * greatest(tidegate_internal.queue_depth(v_queue.name), v_depth) / v_depth
        else v_above
      end * (1 + v_setting.safety_margin);
      v_seconds := greatest(
        v_seconds,
        case
          when v_above > 0 and v_queue.rate = 0 then v_setting.max_seconds
          when v_above > 0 then tidegate.whole_seconds(v_share, v_queue.rate)
        end,
        case when v_gate.queue is not null then
          tidegate_internal.later_seconds(v_queue.name, v_depth, v_above::bigint)
        end,
        case when v_above > 0 and v_queue.still_since is not null then
          tidegate.response_backoff_seconds(v_now - v_queue.still_since)
        end
      );
    end loop;
    if v_gate.forced then
      v_seconds := greatest(v_seconds, tidegate.response_backoff_seconds(v_now - v_gate.changed_at));
    end if;
  end loop;
  v_seconds := least(v_seconds, v_setting.max_seconds);
  return tidegate_internal.spread_seconds(
    v_seconds::integer, least(v_seconds * (1 + v_setting.jitter), v_setting.max_seconds), random()
  );
end;
$$;
