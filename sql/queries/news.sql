-- watch: $1 whether also for those that only move
select tidegate.watch($1);

-- notify: $1 a channel
select pg_notify($1, '');

-- announce: $1 ids that ended, $2 ids that moved
select tidegate.announce($1, $2);

-- moved_since: $1 request ids, $2 the known transition_no of each, or null
select id, transition_no, req_status::text as status from tidegate.moved_since($1, $2);

-- request_progress: $1 request ids, $2 the transition_no that is known of each, or null: where each stands, and the
-- statuses in between.
select
  (w.place - 1)::integer as asked, o.transition_no, since.transition_nos, since.statuses,
  o.id, o.kind, o.req_status::text as status, o.place, o.queue, o.queue_position,
  extract(epoch from o.elapsed)::float8 as elapsed_seconds,
  o.retry_after_seconds, o.eta_p50_ms, o.eta_p90_ms, o.submitted_at, o.finished_at, o.response, o.error,
  o.error -> 'last_error' as last_error, o.executed, o.resolution, o.cancelling, o.submitter,
  exists (select from tidegate.kind as k where k.name = o.kind and k.key_scope = 'kind') as is_shared,
  case when o.req_status in ('failure', 'timed_out')
    then (select v.redriven_as from tidegate.redrive as v where v.request_id = o.id) end as redriven_as
from tidegate.request_outlooks($1) as o
join unnest($1::uuid[], $2::integer[]) with ordinality as w(id, known, place) on w.id = o.id
cross join lateral (
  select
    coalesce(array_agg(e.transition_no order by e.transition_no), '{}') as transition_nos,
    coalesce(array_agg(e.to_status::text order by e.transition_no), '{}') as statuses
  from tidegate.request_event as e
  where w.known is not null and e.request_id = w.id and e.transition_no > w.known
    and e.transition_no < o.transition_no
) as since;
