-- unresolved: Requests that ended after a send that may have been executed, and of which nothing more is known.
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
create or replace view tidegate.unresolved as
select
  r.id, r.kind, r.req_status, r.cause, r.submitter, r.reference, r.tx_attempt - r.tx_unsent as sends, r.finished_at,
  r.error
from tidegate.outcome as o
join tidegate.request as r on r.id = o.request_id
where o.executed = 'unknown';
