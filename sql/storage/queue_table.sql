-- queue_table: The quoted name of a queue's pgmq table, for the few statements that need it.
create or replace function tidegate_internal.queue_table(p_queue text)
  returns text language sql immutable
return 'pgmq.' || quote_ident('q_' || p_queue);
