insert into jobs (kind, payload) select 'noop', '{"i":1}' from generate_series(1, 100);
