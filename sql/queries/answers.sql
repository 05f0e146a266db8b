-- respond: $1 response, $2 request id, $3 reference, $4 part, $5 accept, $6 milliseconds to wait for a lock, or null;
-- set by an argument, because these are evaluated before the call
select request_id, req_status::text as status, outcome
from tidegate.respond(
  case when $6::integer is null or set_config('lock_timeout', $6::text, true) is not null then $1::jsonb end,
  id => $2, reference => $3, part => $4, accept => $5
);

-- respond_many: $1 responses, $2 request ids, $3 references, $4 parts, $5 accepts, $6 milliseconds to wait for a lock,
-- or null
select request_id, req_status::text as status, outcome, refusal
from tidegate.respond_many($1, $2, $3, $4, $5, $6);

-- fail_receipt: $1 id or null, $2 reference or null, $3 error; the request that has failed
select r.id
from (
  select coalesce($1, (select f.request_id from tidegate.request_reference as f where f.reference = $2)) as id
) as r
where tidegate.fail_receipt(r.id, $3);

-- cancel: $1 request id
select outcome, req_status::text as status from tidegate.cancel($1);

-- cancel_requests: $1 kind, $2 statuses, $3 since, $4 until, $5 submitter, $6 queue, $7 before, $8 batch, $9 dry run,
-- $10 ids or null
select cancelled, cancelling, ids, next_before
from tidegate.cancel_requests($1, $2::tidegate.request_status[], $3, $4, $5, $6, $7, $8, $9, $10);

-- fail_request: $1 request id, $2 reason, $3 actor
select outcome, req_status::text as status from tidegate.fail_request($1, $2, $3);
