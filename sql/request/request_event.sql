-- request_event: The history of requests, one row per transition: stored events, and those that the row of a request
-- contains.
--
-- A plain life needs no stored event: the row has the times at which it was submitted, last claimed, taken by the
-- downstream and completed. Every other transition is stored as it happens. The guard of requests stores the events of
-- a row before the row loses them: when the request goes back to its queue, when its times are edited, when it is
-- deleted.
--
--   request_id: The request.
--   transition_no: Which of its transitions this was, from 1.
--   from_status: The status before; null: it was submitted.
--   to_status: The status after.
--   at: When.
--   attempt: Checks (into or out of queued) or sends begun by then.
--   cause: Why; hand_edit: the row was updated by hand.
--   worker: The worker that claimed it last.
--   detail: Error of failures, timeouts and retries; of what operators did, session_user.
create or replace view tidegate.request_event as
select e.request_id, e.transition_no, e.from_status, e.to_status, e.at, e.attempt, e.cause, e.worker, e.detail
from tidegate.stored_event as e
union all
select r.id, t.transition_no, t.from_status, t.to_status, t.at, t.attempt, t.cause, t.worker, null
from tidegate.request as r
-- How many transitions it has made since its receipt: null if it has none.
cross join lateral (
  select case when r.receipt_received_at is not null then (r.req_status <> 'receipt_received')::integer end as later
) as receipt
cross join lateral (
  values
    (
      1, null, (case r.flow when 'decrypt' then 'queued' else 'processing' end)::tidegate.request_status,
      r.submitted_at, 0, 'submitted', null
    ),
    (
      -- A request that waits again has its last send stored.
      case when r.req_status not in ('queued', 'processing') and r.tx_in_flight_at is not null then
        r.transition_no - coalesce(receipt.later + 1, (r.req_status <> 'tx_in_flight')::integer)
      end,
      'processing'::tidegate.request_status, 'tx_in_flight', r.tx_in_flight_at, r.tx_attempt, 'claimed', r.worker
    ),
    (
      r.transition_no - receipt.later, 'tx_in_flight', 'receipt_received', r.receipt_received_at, r.tx_attempt,
      'receipt', r.worker
    ),
    (
      case
        when r.req_status = 'completed' and r.cause in ('receipt', 'response', 'threshold_reached', 'verdict_accepted')
        then r.transition_no
      end,
      case r.cause when 'receipt' then 'tx_in_flight' else 'receipt_received' end::tidegate.request_status, 'completed',
      r.finished_at, r.tx_attempt, r.cause, r.worker
    )
) as t(transition_no, from_status, to_status, at, attempt, cause, worker)
where t.transition_no is not null
  and not exists (
    select from tidegate.stored_event as e where e.request_id = r.id and e.transition_no = t.transition_no
  );
