with c as materialized (select id from jobs where state = 0 and run_at <= now() order by priority, run_at, id limit 1 for update skip locked), u as (update jobs j set state = 1, attempts = attempts + 1, locked_at = now() from c where j.id = c.id returning j.id) select id from u \gset
update jobs set state = 2 where id = :id;
