insert into keyed_jobs (kind, payload, key) values ('noop', '{"i":1}', gen_random_uuid()::text) on conflict (key) do nothing;
