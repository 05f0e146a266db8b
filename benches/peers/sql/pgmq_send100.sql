select count(*) from pgmq.send_batch('bench', (select array_agg('{"i":1}'::jsonb) from generate_series(1, 100)));
