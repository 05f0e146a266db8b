-- redrive_overview: Redriven requests with the status of the new request, latest first.
--
--   at: When it was submitted again.
--   request_id: The old request.
--   kind: Its kind; null: it is gone.
--   req_status: How it ended.
--   code: The code of its error.
--   redriven_as: The new request.
--   redriven_status: Status of the new request; null: deleted.
--   actor: The user who redrove it.
create or replace view tidegate.redrive_overview as
select
  v.at, v.request_id, o.kind, o.req_status, o.error ->> 'code' as code, v.redriven_as, n.req_status as redriven_status,
  coalesce(v.on_behalf_of, v.actor) as actor
from tidegate.redrive as v
left join tidegate.request as o on o.id = v.request_id
left join tidegate.request as n on n.id = v.redriven_as
order by v.at desc, v.request_id desc;
