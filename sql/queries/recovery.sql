-- lives: $1 request ids: counts violations of their life cycles, from rows and history alone
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

-- recovery_begins: $1 options, $2 actor
select tidegate.recovery_begins($1, $2);

-- recovery_ends: $1 run
select tidegate.recovery_ends($1);

-- recovered: no parameters
select w.what, coalesce(sum((r.figures ->> w.what)::numeric), 0)::bigint as requests
from unnest(array[
  'reset', 'ended', 'rebuilt', 'renumbered', 'counted', 'expired', 'dated', 'strays_removed', 'responses', 'gates',
  'counts', 'storages'
]) as w(what)
left join tidegate.recovery as r on r.figures ? w.what
group by w.what
order by w.what;

-- recover_storage: $1 dry run, $2 id of the recovery that counts the repaired queues, or null
select queue from tidegate.recover_storage($1, $2) as queue;

-- recover: $1 batch, $2 after, $3 dry run, $4 kind, $5 reset all, $6 force, $7 run
select examined, reset, ended, rebuilt, renumbered, counted, ids, next_after
from tidegate.recover($1, $2, $3, $4, $5, $6, $7);

-- live_sends: $1 kind or null, $2 the latest end of a lease or null
select
  l.queue, l.worker, count(*) as requests, max(l.until) as until,
  ceil(greatest(extract(epoch from max(l.until) - tidegate.clock()), 0))::bigint as seconds
from tidegate.leased_request as l
where l.in_force and l.req_status = 'tx_in_flight' and ($1::text is null or l.kind = $1)
  and ($2::timestamptz is null or l.until <= $2)
group by l.queue, l.worker
order by until desc, l.queue, l.worker;

-- recover_deadlines: $1 batch, $2 after, $3 dry run, $4 kind, $5 run
select examined, expired, dated, ids, next_after from tidegate.recover_deadlines($1, $2, $3, $4, $5);

-- remove_stray_messages: $1 queue, $2 batch, $3 after, $4 dry run, $5 run
select removed, next_after from tidegate.remove_stray_messages($1, $2, $3, $4, $5);

-- recover_responses: $1 batch, $2 dry run, $3 run
select applied, more from tidegate.recover_responses($1, $2, $3);

-- recover_counts: $1 dry run, $2 run
select kind, req_status::text as status, counted, requests from tidegate.recover_counts($1, $2);

-- recover_gates: $1 dry run, $2 run
select tidegate.recover_gates($1, $2);

-- redrive: $1 batch, $2 after, $3 kind, $4 since, $5 code, $6 dry run, $7 actor, $8 may repeat, $9 submitter, $10
-- until, $11 ids or null, $12 statuses or null
select redriven, refused, retry_after_seconds, ids, new_ids, unfit_ids, unfit_reasons, next_after
from tidegate.redrive($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11,
  $12::tidegate.request_status[]);

-- seconds_ago: $1 seconds
select tidegate.clock() - make_interval(secs => $1);
