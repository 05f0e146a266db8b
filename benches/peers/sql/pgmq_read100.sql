select array_agg(msg_id)::text as ids from pgmq.read('bench', 30, 100) \gset
select count(*) from pgmq.delete('bench', :ids::bigint[]);
