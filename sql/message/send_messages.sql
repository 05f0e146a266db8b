-- send_messages: Puts a message {"id": …} for each request into a queue, under the numbers given.
--
-- `p_keys` are their fairness keys, where the rows of the requests are not there yet and the queue is fair. The caller
-- draws the numbers from `queue_sequence` first, because the request's row names its message.
-- A message that may be taken at once has the visibility time '-infinity': no step of the clock can hide it.
create or replace function tidegate_internal.send_messages(
  p_queue text, p_ids uuid[], p_msg_ids bigint[], p_visible timestamptz default '-infinity',
  p_keys bigint[] default null
)
  returns void language plpgsql as $$
begin
  case p_queue
    -- each fifo queue
    when 'QUEUE' then
      insert into pgmq.q_QUEUE (msg_id, vt, message)
      overriding system value
      select m.msg_id, p_visible, jsonb_build_object('id', m.id)
      from unnest(p_ids, p_msg_ids) as m(id, msg_id);
    -- end of each queue
    else perform tidegate_internal.send_to_turns(p_queue, p_ids, p_msg_ids, p_visible, p_keys);
  end case;
end;
$$;
