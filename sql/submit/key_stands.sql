-- key_stands: Whether an idempotency key stands for this request, which it was accepted with or redriven as, at an
-- instant.
--
-- It stands for a live request, however old. Of an ended one it depends on what was executed: after a completion the
-- key stands until its window since acceptance is over, and after an end without any execution it is free. After an end
-- in which the request was, or may have been, executed it stands for its window from the end, or, by its kind's
-- `key_after_unknown`, until that is resolved, or not at all.
create or replace function tidegate_internal.key_stands(
  p_request tidegate.request, p_key tidegate.dedup, p_now timestamptz
)
  returns boolean language plpgsql stable as $$
begin
  if p_request.req_status = 'completed' then
    return p_now < tidegate_internal.window_end(p_key.first_seen, p_key.dedup_window);
  elsif p_request.req_status not in ('failure', 'timed_out') then
    return true;
  end if;
  return (
    select case
      when e.executed = 'no' or k.key_after_unknown = 'free' then false
      when k.key_after_unknown = 'resolved' and e.executed = 'unknown' then true
      else p_now < tidegate_internal.window_end(p_request.finished_at, p_key.dedup_window)
    end
    from tidegate.kind as k
    cross join lateral (select tidegate.executed(p_request) as executed) as e
    where k.name = p_request.kind
  );
end;
$$;
