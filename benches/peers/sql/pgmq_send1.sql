select pgmq.send('bench', '{"i":1}'::jsonb);
