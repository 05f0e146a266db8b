-- expire_webhooks: Forgets deliveries that ended longer ago than the policy's retention; a maintenance duty, one
-- bounded batch a call.
--
-- Returns how many.
create or replace function tidegate.expire_webhooks(batch integer default 1000)
  returns bigint
  language sql
  security definer
  set search_path = pg_catalog, pg_temp
  set jit = off
as $$
  with expired_rows as (
    delete from tidegate.webhook_delivery as d
    where d.request_id = any(array(
      select e.request_id
      from tidegate.webhook_delivery as e
      where e.finished_at < tidegate.clock() - (select p.retention from tidegate.webhook_policy as p)
      order by e.finished_at
      limit batch
      for update skip locked
    ))
    returning 1
  )
  select count(*) from expired_rows;
$$;
select tidegate_internal.allow('expire_webhooks', '{api,worker,admin}');
