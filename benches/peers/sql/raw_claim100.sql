with c as materialized (select id from jobs where state = 0 and run_at <= now() order by priority, run_at, id limit 100 for update skip locked), u as (update jobs j set state = 1, attempts = attempts + 1, locked_at = now() from c where j.id = c.id returning j.id) select array_agg(id)::text as ids from u \gset
delete from jobs where id = any (:ids::bigint[]);
