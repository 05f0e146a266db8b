-- unresolved: $1 kind or null, $2 rows
select u.id, u.kind, u.req_status::text as status, u.cause, u.submitter, u.reference, u.sends, u.finished_at
from tidegate.unresolved as u
where $1::text is null or u.kind = $1
order by u.id
limit $2;

-- unresolved_counts: 100,000 of each at most: a downstream that has been away for a day must not make this slow.
select
  u.kind, count(*) filter (where u.since is not null) as unresolved,
  extract(epoch from tidegate.clock() - min(u.since))::float8 as oldest_seconds,
  count(*) filter (where u.since is null) as contradicted
from (
  (select w.kind, w.finished_at as since from tidegate.unresolved as w limit 100000)
  union all
  (select o.kind, null from tidegate.outcome as o where o.contradicted_by is not null limit 100000)
) as u
group by u.kind
order by u.kind;

-- search_claim: $1 kinds, $2 batch of each
select
  id, send_id, kind, payload, submitter, attempt, deadline_at, connect_ms, first_byte_ms, body_ms, timeout_ms
from tidegate.search_claim($1, $2);

-- search_settle: $1 request id, $2 receipt, answered or never, $3 reference, $4 response
select tidegate.search_settle($1, $2, $3, $4);

-- ask_claim: $1 kinds, $2 batch
select
  id, send_id, kind, payload, submitter, attempt, deadline_at, connect_ms, first_byte_ms, body_ms, timeout_ms, reference
from tidegate.ask_claim($1, $2);

-- ask_settle: $1 request id, $2 seconds until the next ask, or null
select tidegate.ask_settle($1, make_interval(secs => $2));

-- resolve: $1 request id, $2 executed, $3 note or null, $4 actor, $5 whether the downstream says so
select outcome, req_status::text as status, known, source from tidegate.resolve($1, $2, $3, $4, $5);
