select outcome from tidegate.submit('direct', '{"i":1}'::jsonb, gen_random_uuid()::text);
