-- queue_sequence: The sequence that numbers a queue's messages.
create or replace function tidegate_internal.queue_sequence(p_queue text)
  returns regclass language sql stable
return ('pgmq.' || quote_ident('q_' || p_queue || '_msg_id_seq'))::regclass;
