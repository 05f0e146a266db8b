-- redrive_overview: Redriven requests with the status of the new request, latest first.
create or replace view tidegate.redrive_overview as
select
  v.at, v.request_id, o.kind, o.req_status, o.error ->> 'code' as code, v.redriven_as, n.req_status as redriven_status,
  coalesce(v.on_behalf_of, v.actor) as actor
from tidegate.redrive as v
left join tidegate.request as o on o.id = v.request_id
left join tidegate.request as n on n.id = v.redriven_as
order by v.at desc, v.request_id desc;
comment on column tidegate.redrive_overview.at is 'When it was submitted again.';
comment on column tidegate.redrive_overview.request_id is 'The old request.';
comment on column tidegate.redrive_overview.kind is 'Its kind; null: it is gone.';
comment on column tidegate.redrive_overview.req_status is 'How it ended.';
comment on column tidegate.redrive_overview.code is 'The code of its error.';
comment on column tidegate.redrive_overview.redriven_as is 'The new request.';
comment on column tidegate.redrive_overview.redriven_status is 'Status of the new request; null: deleted.';
comment on column tidegate.redrive_overview.actor is 'The user who redrove it.';
