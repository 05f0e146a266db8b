-- queue_counter: The sequence that is one of a queue's own counters (see `queue_counters` for their names).
--
-- pacing: the theoretical arrival time of the next send, nanoseconds since the epoch. watermark: no message below this
-- msg_id waits, except those that come due later or reappear (see `take_messages`). head: an estimate of the first
-- msg_id that waits, by the last claim or survey. due: every message with a finite visibility time before this has been
-- dealt with, microseconds. survey: when `survey_queue` last ran, microseconds. hand: the stretch that its next run
-- begins with. surveyed: how many numbers, up to the last one surveyed, do not wait; 0: nothing is surveyed. offset:
-- how many numbers are known to be dead (see `enter_queue`). ended: no open transaction has drawn a number up to this
-- one (see `watermark_advance`). noted, noted_xact: the last number of one moment, and a transaction id beyond all that
-- had drawn by then. reaped: no claim searches for a lease that ran out before this, microseconds (see
-- `claim_finish`). epoch: watermarks of kinds under an earlier one are void (see `watermark_lower`).
--
-- Sequences, because `setval` is in place: a counter row would leave a dead version at every claim, and every claim
-- would walk over all of them while an old snapshot is held. `setval` is not undone by a rollback, so each caller
-- orders its steps for that.
create or replace function tidegate_internal.queue_counter(p_queue text, p_counter text)
  returns regclass language sql stable
return ('tidegate.' || quote_ident(p_counter || '_' || p_queue))::regclass;
