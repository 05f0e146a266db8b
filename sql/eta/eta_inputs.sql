-- eta_inputs: The limits, the size of the tx queue and the settings that an ETA depends on.
--
-- `p_queue` is the queue the request is in (rows keep theirs when a kind is pointed elsewhere); `p_counted` says how
-- exactly the tx queue is counted (see `waiting_before`). A paused queue or kind counts as stopped, and so does one
-- whose calls for this kind a breaker holds back: its limit is 0.
create or replace function tidegate_internal.eta_inputs(
  p_kind tidegate.kind, p_queue text, p_status tidegate.request_status, p_counted integer
)
  returns tidegate.eta_terms language plpgsql stable as $$
declare
  v_terms    tidegate.eta_terms;
  v_tx_queue text := case when p_status = 'queued' then p_kind.tx_queue else coalesce(p_queue, p_kind.tx_queue) end;
begin
  select
    s.safety_margin, s.min_seconds, s.max_seconds, s.jitter,
    case
      when q.paused or p_kind.paused or (
        exists (select from tidegate.breaker as b where b.kind = p_kind.name and b.stage = 'tx' and b.state <> 'closed')
        and tidegate.breaker_blocks(p_kind.name, 'tx')
      ) then 0
      else q.per_seconds
    end
  into v_terms.safety_margin, v_terms.min_seconds, v_terms.max_seconds, v_terms.jitter, v_terms.drain_tps
  from tidegate.setting as s
  left join tidegate.queue as q on q.name = v_tx_queue;
  if p_status = 'queued' then
    select
      case
        when q.paused or p_kind.paused or tidegate.breaker_blocks(p_kind.name, 'readiness') then 0
        else q.max_concurrency
      end
    into v_terms.concurrency
    from tidegate.queue as q where q.name = coalesce(p_queue, p_kind.readiness_queue);
    v_terms.tx_queue_size := (
      select w.waiting from tidegate_internal.waiting_before(v_tx_queue, array[null::bigint], p_counted) as w
    );
  end if;
  return v_terms;
end;
$$;
