-- request_overview: How many requests of each kind are in each status; from counts, never from a scan of the requests.
--
--   kind: The kind.
--   req_status: The status.
--   requests: How many.
create or replace view tidegate.request_overview as
select c.kind, c.req_status, sum(c.requests)::bigint as requests
from (
  select kind, req_status, requests from tidegate.request_count
  union all
  select kind, req_status, delta from tidegate.request_count_delta
  union all
  select kind, from_status, -delta from tidegate.request_count_delta where from_status is not null
) as c
group by c.kind, c.req_status
having sum(c.requests) <> 0;
