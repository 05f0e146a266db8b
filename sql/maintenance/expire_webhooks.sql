-- expire_webhooks: One batch of a maintenance duty: deletes deliveries that ended before the policy's retention;
-- returns how many.
create or replace function tidegate.expire_webhooks(batch integer default 1000)
  returns bigint language sql security definer as $$
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
