-- webhook_overview: One row per host with deliveries that are pending, under way, or failed and still kept.
--
--   host_port: Host and port.
--   waiting: Deliveries that wait for their next attempt.
--   under_way: Deliveries under way, or left by a process that ended.
--   failed: Deliveries that failed.
--   oldest_age: The age of its oldest pending delivery; null: none.
--   attempt_max: The most attempts begun for a pending delivery.
create or replace view tidegate.webhook_overview as
with open_delivery as (
  -- Two scans, one for each partial index: delivered ones are never read.
  select d.host_port, d.state, d.attempt, d.lease_token is not null as under_way, d.created_at
  from tidegate.webhook_delivery as d
  where d.state = 'pending'
  union all
  select d.host_port, d.state, d.attempt, false, d.created_at
  from tidegate.webhook_delivery as d
  where d.state = 'failed'
)
select
  o.host_port, count(*) filter (where o.state = 'pending' and not o.under_way) as waiting,
  count(*) filter (where o.under_way) as under_way,
  count(*) filter (where o.state = 'failed') as failed,
  tidegate.clock() - min(o.created_at) filter (where o.state = 'pending') as oldest_age,
  max(o.attempt) filter (where o.state = 'pending') as attempt_max
from open_delivery as o
group by o.host_port;
