-- enter_queue: Draws numbers for new requests and puts their messages into a queue; nulls when its gate has no room for
-- all. `submit` does the same for one request.
--
-- `p_high_water` is the gate's mark, null to enter without a limit (admission `accepted`, a gate held open). The gate
-- lets in the numbers up to its offset, which counts numbers known to be dead, plus the mark. So of the numbers up to
-- the last one let in at most as many as the mark says are live. The offset is read before the draw, and the caller
-- refreshes it when the numbers run out (see `queue_room`). Numbers without a message are void: dead at the end of the
-- transaction.
--
-- Returns the numbers, how many messages wait before the first, and `fills`: whether they may have brought the depth to
-- the mark. In a fair queue `positions` has how many wait before each; `p_kind` and `p_submitters` say whose turns they
-- take.
create or replace function tidegate_internal.enter_queue(
  p_queue text, p_ids uuid[], p_high_water bigint, p_visible timestamptz, p_kind text, p_submitters text[],
  out numbers bigint[], out waiting bigint, out positions bigint[], out fills boolean
)
  language plpgsql as $$
declare
  v_numbers constant record := tidegate_internal.queue_numbers(p_queue);
  v_to      constant bigint := v_numbers.dead + p_high_water;
  v_count   constant integer := cardinality(p_ids);
  v_keys    bigint[];
begin
  if v_numbers.last + v_count > v_to then
    return;
  end if;
  v_keys := (
    select array_agg(tidegate_internal.fair_key(q.fair_by, s.submitter, p_kind) order by s.place)
    from tidegate.queue as q
    cross join unnest(p_submitters) with ordinality as s(submitter, place)
    where q.name = p_queue and q.fair_by is not null and s.place <= v_count
  );
  if v_keys is null then
    waiting := tidegate_internal.entry_position(p_queue, v_numbers.last, tidegate.clock());
  else
    positions := tidegate_internal.entry_turns(p_queue, v_keys, tidegate.clock());
    waiting := positions[1];
  end if;
  perform tidegate_internal.register_draw(p_queue, v_count, v_numbers.last);
  numbers := array(
    select nextval(q.sequence)
    from tidegate_internal.queue_sequence(p_queue) as q(sequence)
    cross join generate_series(1, v_count)
  );
  fills := numbers[v_count] >= v_to;
  if numbers[v_count] > v_to then
    numbers := null;
    return;
  end if;
  perform tidegate_internal.send_messages(p_queue, p_ids, numbers, p_visible, v_keys);
end;
$$;
