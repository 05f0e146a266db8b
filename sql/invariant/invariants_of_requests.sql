-- invariants_of_requests: The invariants of requests, responses, references, deliveries and keys.
--
-- As `invariants`.
create or replace function tidegate_internal.invariants_of_requests()
  returns table (name text, rule text, subject text, query text) language sql immutable as $$
  values
    ('status_without_its_time',
     'a row has the time at which it came to its status, and an end if and only if it has ended', 'request', $q$
(r.finished_at is not null) <> (r.req_status in ('completed', 'timed_out', 'failure'))
or case r.req_status
  when 'queued' then r.queued_at
  when 'processing' then r.processing_at
  when 'tx_in_flight' then r.tx_in_flight_at
  when 'receipt_received' then r.receipt_received_at
  else r.finished_at
end is null
     $q$),
    ('ended_request_that_names_a_message',
     'a row in no queue names no message, unless it was put there by hand', 'request', $q$
r.req_status not in ('queued', 'processing', 'tx_in_flight') and num_nonnulls(r.queue, r.msg_id) > 0
and 'hand_edit' <> all(array(select e.cause from tidegate.request_event as e where e.request_id = r.id) || r.cause)
     $q$),
    ('time_in_the_future', 'no time of a request is in the future', 'request', $q$
statement_timestamp() + interval '1 minute' < greatest(
  r.submitted_at, r.queued_at, r.processing_at, r.tx_in_flight_at, r.receipt_received_at, r.finished_at
)
     $q$),
    ('live_request_without_deadline', 'every status that is not the last has a deadline', 'request', $q$
case r.req_status
  when 'queued' then not isfinite(r.deadline_at) or r.readiness_deadline_at is null
    or not isfinite(r.readiness_deadline_at)
  when 'receipt_received' then (
    select isfinite(a.due_at) from tidegate.awaiting_response as a where a.request_id = r.id
  ) is not true
  else r.req_status in ('processing', 'tx_in_flight') and (r.deadline_at is null or not isfinite(r.deadline_at))
end
     $q$),
    ('request_past_its_deadline', 'a request does not outlive its deadline by more than a minute', 'request', $q$
statement_timestamp() - interval '1 minute' > case r.req_status
  when 'queued' then least(r.deadline_at, r.readiness_deadline_at)
  when 'processing' then r.deadline_at
  when 'tx_in_flight' then r.deadline_at
  when 'receipt_received' then (select a.due_at from tidegate.awaiting_response as a where a.request_id = r.id)
end
     $q$),
    ('awaiting_response_of_no_request', 'only requests that await a response are recorded as such', null, $q$
select a.request_id::text as id
from tidegate.awaiting_response as a
left join tidegate.request as r on r.id = a.request_id
where r.req_status is distinct from 'receipt_received'
     $q$),
    ('completed_request_without_response', 'a completed request has its response; a proof may have none', 'request',
     $q$r.req_status = 'completed' and r.flow <> 'proof' and r.response is null and r.cause <> 'hand_edit'$q$),
    ('response_of_a_live_request', 'a request has no response before its end', 'request',
     $q$r.response is not null and r.req_status not in ('completed', 'timed_out', 'failure')$q$),
    ('completed_without_its_shares',
     'a request that was completed by its shares has as many as it takes', 'request', $q$
r.cause = 'threshold_reached'
and (select count(*) from tidegate.response_part as p where p.request_id = r.id) < r.response_threshold
     $q$),
    ('share_of_a_request_that_awaits_none', 'shares are kept of requests that have been sent and take them', null, $q$
select p.request_id || ' ' || p.part as id
from tidegate.response_part as p
join tidegate.request as r on r.id = p.request_id
where {of p.request_id} and {of r.id}
  and (r.flow <> 'decrypt' or r.req_status in ('queued', 'processing', 'tx_in_flight'))
     $q$),
    ('shares_reached_and_not_completed',
     'a request whose shares have reached their threshold is completed', 'request', $q$
r.req_status = 'receipt_received' and r.response_threshold > 1
and (select count(*) from tidegate.response_part as p where p.request_id = r.id) >= r.response_threshold
     $q$),
    ('request_without_its_reference',
     'the reference of a receipt leads to a request, and that of one that awaits its response to itself', 'request', $q$
r.reference is not null and (
  select f.request_id = r.id or r.req_status <> 'receipt_received'
  from tidegate.request_reference as f
  where f.reference = r.reference
) is not true
     $q$),
    ('reference_of_another_request', 'a reference leads to the request whose receipt brought it', null, $q$
select f.reference as id
from tidegate.request_reference as f
join tidegate.request as r on r.id = f.request_id
where {of f.request_id} and {of r.id} and r.reference is distinct from f.reference
     $q$),
    ('leftover_of_a_removed_request',
     'references, shares, kept responses and deliveries go with their request', null, $q$
select o.what || ' ' || o.request_id as id
from (
  select 'reference' as what, f.request_id from tidegate.request_reference as f
  union all select 'share', p.request_id from tidegate.response_part as p
  union all select 'response', i.request_id from tidegate.response_inbox as i where i.request_id is not null
  union all select 'delivery', w.request_id from tidegate.webhook_delivery as w
) as o
where {of o.request_id} and not exists (select from tidegate.request as r where r.id = o.request_id and {of r.id})
     $q$),
    ('response_left_in_the_inbox',
     'an early response is applied when its request awaits one, and marked late when it has ended', null, $q$
select i.id::text as id
from tidegate.response_inbox as i
left join tidegate.request_reference as f on f.reference = i.reference
join tidegate.request as r on r.id = coalesce(i.request_id, f.request_id)
where not i.late and r.req_status not in ('queued', 'processing', 'tx_in_flight')
  and greatest(i.received_at,
    coalesce(r.finished_at, r.receipt_received_at)) < statement_timestamp() - interval '1 minute'
     $q$),
    ('delivery_of_a_live_request', 'a live request has no delivery', null, $q$
select w.request_id::text as id
from tidegate.webhook_delivery as w
join tidegate.request as r on r.id = w.request_id
where {of w.request_id} and {of r.id} and r.req_status not in ('completed', 'timed_out', 'failure')
     $q$),
    ('ended_request_without_delivery',
     'a request that was submitted with a callback has a delivery when it has ended, for as long as deliveries are '
     'kept',
     'request',
     $q$
r.callback_url is not null and r.req_status in ('completed', 'timed_out', 'failure')
and r.finished_at > statement_timestamp() - (select p.retention from tidegate.webhook_policy as p)
and (select count(*) from tidegate.webhook_delivery as w where w.request_id = r.id) = 0
     $q$),
    ('outcome_of_no_failed_request', 'what is known of sends is kept of requests that failed or timed out', null, $q$
select o.request_id::text as id
from tidegate.outcome as o
left join tidegate.request as r on r.id = o.request_id
where {of o.request_id} and coalesce(r.req_status not in ('failure', 'timed_out'), true)
     $q$),
    ('sent_after_its_cancel', 'no send begins after the cancel of its request was requested', 'request',
     $q$r.cancel_requested_at < r.tx_in_flight_at$q$),
    ('redrive_of_unfailed_request',
     'only failed and timed-out requests are redriven, and each new request exists or has existed', null, $q$
select v.request_id::text as id
from tidegate.redrive as v
left join tidegate.request as o on o.id = v.request_id
where {of v.request_id} and (
  o.req_status not in ('failure', 'timed_out')
  or (not exists (select from tidegate.request as n where n.id = v.redriven_as)
    and not exists (select from tidegate.request_event as e where e.request_id = v.redriven_as)
    and v.at > statement_timestamp() - interval '24 hours')
)
     $q$),
    ('key_of_no_request', 'an idempotency key stands for a request that was there', null, $q$
select d.scope || ' ' || d.key as id
from tidegate.dedup as d
where d.expires_at > statement_timestamp()
  and not exists (select from tidegate.request as r where r.id = d.request_id)
  and not exists (select from tidegate.request_event as e where e.request_id = d.request_id)
     $q$),
    ('counts_do_not_add_up', 'requests are counted by kind and status as many as there are', null, $q$
select c.kind || ' ' || c.req_status as id
from (
  select o.kind, o.req_status, o.requests from tidegate.request_overview as o
  union all
  select r.kind, r.req_status, -count(*) from tidegate.request as r group by r.kind, r.req_status
) as c
group by c.kind, c.req_status
having sum(c.requests) <> 0
     $q$);
$$;
