-- renumber: Puts the message of a request, whose row the caller has locked, back into its queue under a fresh number.
create or replace function tidegate_internal.renumber(p_queue text, p_id uuid, p_visible timestamptz)
  returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_number bigint;
begin
  perform tidegate_internal.announce_draw(p_queue, 1,
    (select k.last from tidegate_internal.queue_numbers(p_queue) as k));
  v_number := nextval(tidegate_internal.queue_sequence(p_queue));
  update tidegate.request as r set previous_status = r.req_status, msg_id = v_number where r.id = p_id;
  perform tidegate_internal.send_messages(p_queue, array[p_id], array[v_number], p_visible);
end;
$$;
