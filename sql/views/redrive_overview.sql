-- tidegate.redrive_overview: requests that were submitted again, and what became of them, latest first
create or replace view tidegate.redrive_overview as
select
  v.at, v.request_id, o.kind, o.req_status, o.error ->> 'code' as code, v.redriven_as, n.req_status as redriven_status,
  coalesce(v.on_behalf_of, v.actor) as actor
from tidegate.redrive as v
left join tidegate.request as o on o.id = v.request_id
left join tidegate.request as n on n.id = v.redriven_as
order by v.at desc, v.request_id desc;
