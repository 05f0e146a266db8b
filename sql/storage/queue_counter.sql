-- queue_counter: The sequence that is one of a queue's own counters (see `queue_counters` for their names).
--
-- The times are microseconds since 1970, but for `pacing`, in nanoseconds.
--   pacing: the theoretical arrival time of the next send
--   watermark: no message below this number waits, except those that come due later or reappear (see `take_messages`)
--   epoch: watermarks of kinds under an earlier one are void (see `watermark_lower`)
--   due_watermark: every message with a finite visibility time before this has been dealt with
--   lease_watermark: no claim searches for a lease that ran out before this (see `claim_finish`)
--   first_waiting: an estimate of the first number that waits, by the last claim or survey
--   surveyed_at: when `survey_queue` last ran
--   survey_cursor: the chunk of numbers that its next run begins with
--   not_waiting: how many numbers, up to the last one surveyed, do not wait; 0: none is surveyed
--   offset: how many numbers are known to be dead (see `enter_queue`)
--   closed_draws: no open transaction has drawn a number up to this one (see `watermark_advance`)
--   snapshot_number: the last number of one moment
--   snapshot_xid: a transaction id beyond all that had drawn by then
--   ready_tag, ready_no: no ready turn of a fair queue lies before (see `raise_turns`)
--   last_turn: the last number of a turn
--   forgotten: idle turns with a smaller tag have been forgotten
--   folded: quiet rows of the journal before this have been folded (see `fold_arrivals`)
--
-- Sequences, because `setval` is in place: a counter row would leave a dead version at every claim, and every claim
-- would walk over all of them while an old snapshot is held. `setval` is not undone by a rollback, so each caller
-- orders its steps for that.
create or replace function tidegate_internal.queue_counter(p_queue text, p_counter text)
  returns regclass language sql stable
return ('tidegate.' || quote_ident(p_counter || '_' || p_queue))::regclass;
