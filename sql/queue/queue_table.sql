-- tidegate.queue_table: the quoted name of a queue's pgmq table, for the few statements that need it
create or replace function tidegate.queue_table(p_queue text)
  returns text
  language sql
  immutable
  parallel safe
return 'pgmq.' || quote_ident('q_' || p_queue);

comment on function tidegate.queue_table is 'Internal: the quoted name of a queue''s pgmq table.';
