-- rate_limit: What the rate limit of each queue that has one admits now.
--
--   queue: The queue.
--   per_seconds: Sends per second; 0: stopped.
--   burst: How many sends may start at once after a pause.
--   next_send_at: When a claim may reserve the next send; null: stopped.
--   sends_left: How many sends a claim may reserve now.
create or replace view tidegate.rate_limit as
select r.queue, r.per_seconds, r.burst, r.next_send_at, r.sends_left
from tidegate.rate_limits() as r;
