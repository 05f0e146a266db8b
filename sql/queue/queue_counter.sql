-- queue_counter: A queue's own counter, one of pacing the theoretical arrival time of the next send, nanoseconds since
-- the epoch mark no message below this msg_id waits, except such as come due later or reappear (see `take_messages`)
-- due every message whose visibility time is finite and before this has been dealt with, microseconds survey when
-- `survey_queue` last looked, microseconds since the epoch hand the stretch of numbers that its next look begins with
-- surveyed how many numbers, up to the last one surveyed, do not wait; 0: nothing is surveyed offset how many numbers
-- are known to be dead (see `enter_queue`) ended no open transaction has drawn a number up to this one (see
-- `watermark_advance`) noted, noted_xact the last number of one moment, and a transaction id beyond all that had drawn
-- by then reaped no claim looks for a lease that ran out before this, microseconds since the epoch (see
-- `watermarks_advance`) epoch kinds' marks of an earlier one are void (see `watermark_lower`).
--
-- Sequences, because `setval` is in place: a counter row would leave a dead version at every claim, and all of
-- them would have to be walked while somebody holds an old snapshot. `setval` is not undone by a rollback, so
-- each user orders its steps for that.
create or replace function tidegate_internal.queue_counter(p_queue text, p_counter text)
  returns regclass
  language sql
  stable
return ('tidegate.' || quote_ident(p_counter || '_' || p_queue))::regclass;
