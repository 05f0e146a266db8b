-- What the tables of this folder's subject are for, column by column.

comment on type tidegate.eta_terms is
  'What an ETA depends on besides the place and position of a request.';
comment on column tidegate.eta_terms.tx_queue_size is 'Q, messages that wait in the tx queue.';
comment on column tidegate.eta_terms.drain_tps is 'D, sends per second; null: no limit, 0: stopped or paused.';
comment on column tidegate.eta_terms.concurrency is 'C, checks at once; null: no limit, 0: stopped or paused.';
comment on column tidegate.eta_terms.safety_margin is 'M, a share.';
comment on column tidegate.eta_terms.min_seconds is 'The smallest answer.';
comment on column tidegate.eta_terms.max_seconds is 'The largest answer.';
comment on column tidegate.eta_terms.jitter is 'By what share at most an answer is made later, at random.';

comment on type tidegate.retry_after is 'When to ask for a request again.';
comment on column tidegate.retry_after.seconds is 'In whole seconds, jitter included.';
comment on column tidegate.retry_after.p50_ms is
  'In how many milliseconds the answer is there as likely as not; null: not known.';
comment on column tidegate.retry_after.p90_ms is
  'In how many milliseconds the answer is there with a probability of 90 percent; null: not known.';

comment on table tidegate.response_backoff is
  'B(E): how long to wait before asking again for an awaited response; written by operators.';
comment on column tidegate.response_backoff.from_elapsed is
  'The row counts from this long after the receipt, until the next row does.';
comment on column tidegate.response_backoff.seconds is 'The Retry-After, seconds.';

comment on table tidegate.finish_sample is
  'Append-only: requests of a kind that one statement ended, how long a few of them took, and how that compares with '
  'what their callers were told; written by a trigger on request, folded by take_samples after ten seconds.';
comment on column tidegate.finish_sample.kind is 'The kind.';
comment on column tidegate.finish_sample.at is 'When.';
comment on column tidegate.finish_sample.requests is 'How many requests ended.';
comment on column tidegate.finish_sample.answer_ms is
  'Of at most eight of them that were answered: milliseconds from the claim for sending to the end.';
comment on column tidegate.finish_sample.predicted is
  'How many of their callers were told an ETA at submit, and have not cancelled.';
comment on column tidegate.finish_sample.error_ms is
  'By how much later than told they ended, all together; negative: earlier.';
comment on column tidegate.finish_sample.error_abs_ms is 'The same without signs.';
comment on column tidegate.finish_sample.error_bins is
  'How many ended up to -30, -5, -1, 0, 1, 5, 30 seconds later than told, each above the one before, and the rest.';
comment on column tidegate.finish_sample.p90_stated is 'How many were told a time for 90 percent.';
comment on column tidegate.finish_sample.p90_held is 'How many of these ended within it.';
comment on index tidegate.finish_sample_kind_at_idx is 'Serves take_samples: the latest answers of a kind.';

comment on table tidegate.answer_sample is
  'How long the latest answers of each kind took, a thousand rows or so; written by take_samples.';
comment on column tidegate.answer_sample.kind is 'The kind.';
comment on column tidegate.answer_sample.at is 'When they came.';
comment on column tidegate.answer_sample.answer_ms is
  'Milliseconds from the claim for sending to the end, of at most eight.';
comment on index tidegate.answer_sample_kind_at_idx is 'Serves take_samples: the latest answers of a kind.';

comment on table tidegate.eta_quality_total is
  'One row per kind: the finish samples of more than ten seconds ago, summed; written by take_samples. See '
  'eta_quality.';
comment on column tidegate.eta_quality_total.kind is 'The kind.';
comment on column tidegate.eta_quality_total.requests is 'How many requests ended.';
comment on column tidegate.eta_quality_total.predicted is 'How many of their callers were told an ETA at submit.';
comment on column tidegate.eta_quality_total.error_ms is 'By how much later than told they ended, all together.';
comment on column tidegate.eta_quality_total.error_abs_ms is 'The same without signs.';
comment on column tidegate.eta_quality_total.error_bins is 'As in finish_sample.';
comment on column tidegate.eta_quality_total.p90_stated is 'How many were told a time for 90 percent.';
comment on column tidegate.eta_quality_total.p90_held is 'How many of these ended within it.';

comment on table tidegate.poll_count is
  'One row per kind: what callers did with what they were told; written by the API nodes through count_polls.';
comment on column tidegate.poll_count.kind is 'The kind.';
comment on column tidegate.poll_count.answered is 'Requests whose end a poll has told.';
comment on column tidegate.poll_count.polls is 'Polls of these, that one included.';
comment on column tidegate.poll_count.lateness_ms is 'How long their ends had waited to be asked for, all together.';

comment on table tidegate.queue_sample is
  'Append-only: the first waiting message of each queue, second by second while something waits; written by '
  'take_samples, '
  'kept for a minute.';
comment on column tidegate.queue_sample.queue is 'The queue.';
comment on column tidegate.queue_sample.at is 'When.';
comment on column tidegate.queue_sample.head is
  'The number of the first waiting message; null: nothing waited, or nothing moved, which tells nothing about the '
  'pace.';

comment on table tidegate.queue_pace is
  'One row per queue: how fast its messages leave it while some wait; written by take_samples.';
comment on column tidegate.queue_pace.queue is 'The queue.';
comment on column tidegate.queue_pace.head is 'The number of the first waiting message; null: nothing waits.';
comment on column tidegate.queue_pace.head_since is 'Since when that message is the first.';
comment on column tidegate.queue_pace.still_since is
  'Since when nothing leaves the queue although messages wait; null: it moves, or nothing waits.';
comment on column tidegate.queue_pace.per_second is
  'Messages per second, while some waited, of the last half minute; null: too little was seen.';
comment on column tidegate.queue_pace.held_ms is
  'How long a message is held until its stage ends it, on average of the last five minutes; null: too few were.';
comment on column tidegate.queue_pace.observed_at is 'When this was observed; ETAs use it for ten seconds.';

comment on table tidegate.kind_pace is
  'One row per kind: how long its answers take once they are sent for; written by take_samples.';
comment on column tidegate.kind_pace.kind is 'The kind.';
comment on column tidegate.kind_pace.samples is
  'How many answers of the last ten minutes it is made from, a thousand or so at most.';
comment on column tidegate.kind_pace.answer_ms is
  'Forty equally likely times from the claim for sending to the end, ascending, milliseconds; null: too few samples.';
comment on column tidegate.kind_pace.in_flight is 'How many requests are being sent or await their response.';
comment on column tidegate.kind_pace.in_flight_since is 'Since when there are any.';
comment on column tidegate.kind_pace.still_since is
  'Since when no answer comes although ten were to be expected; null: they come.';
comment on column tidegate.kind_pace.observed_at is 'When this was observed; ETAs use it for ten seconds.';
