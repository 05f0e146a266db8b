-- expire_webhooks: One batch of a maintenance duty: deletes deliveries that ended before the policy's retention;
-- returns how many. What an application keeps is passed over (see `try_each`). What is known of hosts that were not
-- called since then goes, too.
create or replace function tidegate.expire_webhooks(batch integer default 1000)
  returns bigint language plpgsql security definer as $$
declare
  -- The time is in the subquery, which is evaluated once: no index serves a comparison with a volatile function.
  v_ids uuid[] := array(
    select e.request_id
    from tidegate.webhook_delivery as e
    where e.finished_at < (select tidegate.clock() - p.retention from tidegate.webhook_policy as p)
      and not tidegate_internal.is_passed_over(e.request_id, 'expire_webhooks')
    order by e.finished_at
    limit batch
    for update skip locked
  );
begin
  delete from tidegate.webhook_answer as a
  where a.at < tidegate.clock() - (select p.retention from tidegate.webhook_policy as p);
  if v_ids = '{}' then
    return 0;
  end if;
  return cardinality(tidegate_internal.try_each(
    'expire_webhooks', v_ids,
    $sql$
      with gone as (
        delete from tidegate.webhook_delivery as d where d.request_id = any($1) returning d.request_id
      )
      select array_agg(g.request_id) from gone as g
    $sql$
  ));
end;
$$;
select tidegate_internal.allow('expire_webhooks', '{api,worker,admin}');
select tidegate_internal.plan_along_indexes('expire_webhooks');
