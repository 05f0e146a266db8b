-- wrong_counts: The counts by kind and status that differ from the requests that are there, in one snapshot.
create or replace function tidegate_internal.wrong_counts()
  returns table (kind text, req_status tidegate.request_status, counted bigint, requests bigint)
  language sql
  stable
  set search_path = pg_catalog, pg_temp
as $$
  select c.kind, c.req_status, sum(c.counted)::bigint, sum(c.requests)::bigint
  from (
    select t.kind, t.req_status, t.requests as counted, 0 as requests from tidegate.request_count as t
    union all
    select d.kind, d.req_status, d.delta, 0 from tidegate.request_count_delta as d
    union all
    select r.kind, r.req_status, 0, count(*) from tidegate.request as r group by r.kind, r.req_status
  ) as c
  group by c.kind, c.req_status
  having sum(c.counted) <> sum(c.requests);
$$;
