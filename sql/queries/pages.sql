-- session_begin: $1 hash of the token, $2 id of the key, $3 how long it lasts, in milliseconds
select tidegate.session_begin($1, $2, $3 * interval '1 millisecond');

-- session_key: $1 hash of the token
select tidegate.session_key($1);

-- session_end: $1 hash of the token
select tidegate.session_end($1);

-- request_found: $1 an id, a reference or a key, $2 kind or null, $3 submitter or null
select r.id
from tidegate.request as r
where r.id = case when $1 ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then $1::uuid end
union
select f.request_id from tidegate.request_reference as f where f.reference = $1
union
select d.request_id
from tidegate.dedup as d
where d.key = $1 and d.scope = any(array[concat($2::text, ':', $3::text), concat($2::text, ':')]);

-- request_detail: $1 id
select
  r.id, r.kind, r.flow::text as flow, r.req_status::text as status, r.cause, r.submitter, r.queue, r.reference,
  r.worker, r.readiness_attempt, r.tx_attempt, r.tx_unsent, r.response_threshold,
  (select count(*) from tidegate.response_part as p where p.request_id = r.id) as shares, r.submitted_at, r.deadline_at,
  r.finished_at, r.cancel_requested_at, r.callback_url, r.send_id, tidegate.executed(r) as executed,
  r.eta_seconds::float8, pg_column_size(r.payload)::bigint as payload_bytes,
  pg_column_size(r.response)::bigint as response_bytes, r.error::text as error, w.state as delivery,
  w.attempt as delivery_attempt, w.last_status as delivery_status, w.last_error as delivery_error,
  (select v.redriven_as from tidegate.redrive as v where v.request_id = r.id) as redriven_as,
  (select v.request_id from tidegate.redrive as v where v.redriven_as = r.id limit 1) as redrive_of
from tidegate.request as r
left join tidegate.webhook_delivery as w on w.request_id = r.id
where r.id = $1;

-- request_steps: $1 id
select e.transition_no, e.from_status::text, e.to_status::text, e.at, e.attempt, e.cause, e.worker, e.detail::text
from tidegate.request_event as e
where e.request_id = $1
order by e.transition_no
limit 1000;

-- request_content: $1 id, $2 payload or response, $3 characters at most
select content, characters from tidegate.request_content($1, $2, $3);

-- snapshot_holders: no parameters: the sessions whose snapshots keep vacuum from removing dead rows for over a minute
select
  a.pid, coalesce(a.usename, '?')::text as user, coalesce(a.application_name, '') as application, a.state,
  extract(epoch from tidegate.clock() - a.xact_start)::float8 as seconds
from pg_stat_activity as a
where a.backend_xmin is not null and a.pid <> pg_backend_pid() and a.backend_type = 'client backend'
  and a.xact_start < tidegate.clock() - interval '1 minute'
order by a.xact_start
limit 5;

-- recoveries: $1 rows at most
select
  r.id, r.began_at, r.ended_at, r.actor, r.on_behalf_of, r.options::text as options, r.figures::text as figures
from tidegate.recovery as r
order by r.id desc
limit $1;

-- eta_history: $1 since: all kinds by the minute
select
  h.kind, h.minute, h.mean_abs_error_seconds::float8 as mean_abs_error_seconds,
  h.mean_error_seconds::float8 as mean_error_seconds, h.p90_held_share::float8 as p90_held_share,
  h.polls_per_request::float8 as polls_per_request
from tidegate.eta_history as h
where h.minute >= $1
order by h.minute;

-- eta_figures: no parameters
select
  q.kind, q.eta, q.requests, q.predicted, q.mean_error_seconds::float8 as mean_error_seconds,
  q.mean_abs_error_seconds::float8 as mean_abs_error_seconds, q.p90_held_share::float8 as p90_held_share,
  q.polls_per_request::float8 as polls_per_request, q.mean_lateness_seconds::float8 as mean_lateness_seconds,
  q.error_bins
from tidegate.eta_quality as q
order by q.kind;

-- gate_states: no parameters: gates, those of queues first and without their depth, which `queue_overview` has
select
  g.name, g.queue, g.kind, g.submitter, g.state, g.mode,
  -- Not joined: a join would count the depths of queues, too.
  coalesce(case when g.queue is null then (select o.depth from tidegate.gate_overview(g.name) as o) end, 0) as depth,
  g.high_water, g.low_water, g.forced, g.epoch, g.depth as depth_at_change, g.changed_at
from tidegate.gate as g
order by g.queue is null, g.name;
