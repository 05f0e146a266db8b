-- unresolved: Requests that ended after a send that may have been executed, and of which nothing more is known.
--
-- Without those that were repeated: their repeats decide.
--
--   id: The request.
--   kind: Its kind.
--   req_status: Its status.
--   cause: Why it ended.
--   submitter: Its submitter.
--   reference: The downstream's name for it, if a receipt had one.
--   sends: Sends that may have been executed.
--   finished_at: When it ended.
--   error: Its error.
--   search_at: When workers search for its receipt next; null: not any more.
create or replace view tidegate.unresolved as
select
  r.id, r.kind, r.req_status, r.cause, r.submitter, r.reference, r.tx_attempt - r.tx_unsent as sends, r.finished_at,
  r.error, o.search_at
from tidegate.outcome as o
join tidegate.request as r on r.id = o.request_id
where o.executed = 'unknown' and not exists (
  select
  from tidegate.redrive as v
  join tidegate.request as n on n.id = v.redriven_as
  where v.request_id = o.request_id and n.send_id is not null
);
