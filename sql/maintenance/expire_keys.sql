-- expire_keys: One batch of a maintenance duty: deletes idempotency keys that stand for no request any more after their
-- window; returns how many, and whether to go on.
--
-- One that still stands is examined again in ten minutes: its request lives, or may have been executed.
create or replace function tidegate.expire_keys(batch integer default 1000, out expired bigint, out more boolean)
  language plpgsql security definer as $$
declare
  v_keys tidegate.dedup[];
begin
  -- A locked row is being used again and gets a new window. The time is a subquery, which is evaluated once: no index
  -- serves a comparison with a volatile function.
  select array_agg(l.key) into v_keys
  from (
    select d as key
    from tidegate.dedup as d
    where d.expires_at <= (select tidegate.clock())
    order by d.expires_at
    limit batch
    for update skip locked
  ) as l;

  -- Judged in a statement after the locks: what was executed may have been established meanwhile.
  with judged as materialized (
    select k.scope, k.key, tidegate_internal.dedup_target(k, tidegate.clock()) is not null as stands
    from unnest(v_keys) as k
  ), kept as (
    update tidegate.dedup as d
    set expires_at = tidegate.clock() + least(d.dedup_window, interval '10 minutes')
    from judged as j
    where j.stands and d.scope = j.scope and d.key = j.key
  ), gone as (
    delete from tidegate.dedup as d using judged as j
    where not j.stands and d.scope = j.scope and d.key = j.key
    returning 1
  )
  select count(*) into expired from gone;
  more := cardinality(v_keys) = batch;
end;
$$;
select tidegate_internal.allow('expire_keys', '{api,worker,admin}');
select tidegate_internal.plan_along_indexes('expire_keys');
