-- $1 request ids: counts violations of their life cycles, from rows and history alone
with accepted as (select unnest($1::uuid[]) as id), step as (
  select
    e.request_id, e.transition_no, e.from_status, e.to_status, lag(e.to_status) over life as arrived_at,
    row_number() over life as expected_no
  from tidegate.request_event as e
  where e.request_id = any($1)
  window life as (partition by e.request_id order by e.transition_no)
)
select (select count(*) from accepted as a
    where not exists (select from tidegate.request as r where r.id = a.id)) as missing,
  (select count(*) from tidegate.request as r
   where r.id = any($1) and r.req_status not in ('completed', 'timed_out', 'failure')) as unfinished,
  (select count(*) from (
     select s.request_id from step as s where s.to_status in ('completed', 'timed_out', 'failure')
     group by s.request_id having count(*) <> 1
   ) as twice) as finished_twice,
  (select count(*) from step as s
   join tidegate.request as r on r.id = s.request_id
   where s.transition_no <> s.expected_no or s.from_status is distinct from s.arrived_at
     or not exists (
       select from tidegate.transition_rule as t
       where t.flow = r.flow and t.from_status is not distinct from s.from_status and t.to_status = s.to_status
     )) as illegal_steps,
  (select count(*) from tidegate.request_event as e where e.request_id = any($1)
    and e.cause = 'recovered') as recovered;
