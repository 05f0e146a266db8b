-- $1 id or null, $2 reference or null, $3 error; the request that has failed
select r.id
from (
  select coalesce($1, (select f.request_id from tidegate.request_reference as f where f.reference = $2)) as id
) as r
where tidegate.fail_receipt(r.id, $3);
