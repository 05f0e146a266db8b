select msg_id as id from pgmq.read('bench', 30, 1) \gset
select pgmq.delete('bench', :id::bigint);
