-- expire_keys: One batch of a maintenance duty: deletes idempotency keys whose window has passed; returns how many.
create or replace function tidegate.expire_keys(batch integer default 1000)
  returns bigint language sql security definer as $$
  -- A locked row is being used again and gets a new window.
  with expired_rows as (
    delete from tidegate.dedup as d
    using (
      select e.scope, e.key from tidegate.dedup as e
      where e.expires_at <= tidegate.clock()
      order by e.expires_at
      limit batch
      for update skip locked
    ) as expired
    where d.scope = expired.scope and d.key = expired.key
    returning 1
  )
  select count(*) from expired_rows;
$$;
select tidegate_internal.allow('expire_keys', '{api,worker,admin}');
