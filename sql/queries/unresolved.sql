-- $1 kind or null, $2 rows
select u.id, u.kind, u.req_status::text as status, u.cause, u.submitter, u.reference, u.sends, u.finished_at
from tidegate.unresolved as u
where $1::text is null or u.kind = $1
order by u.id
limit $2;
