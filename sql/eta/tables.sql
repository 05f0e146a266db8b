-- Comments on the tables of this folder's subject.

comment on type tidegate.eta_terms is 'The inputs of an ETA besides the place and position of a request.';
comment on column tidegate.eta_terms.tx_queue_size is 'Q, messages that wait in the tx queue.';
comment on column tidegate.eta_terms.drain_tps is 'D, sends per second; null: no limit, 0: stopped or paused.';
comment on column tidegate.eta_terms.concurrency is 'C, checks at once; null: no limit, 0: stopped or paused.';
comment on column tidegate.eta_terms.safety_margin is 'M, a share.';
comment on column tidegate.eta_terms.min_seconds is 'The smallest answer.';
comment on column tidegate.eta_terms.max_seconds is 'The largest answer.';
comment on column tidegate.eta_terms.jitter is 'Largest random share added to an answer.';

comment on type tidegate.retry_after is 'The Retry-After of a request.';
comment on column tidegate.retry_after.seconds is 'Whole seconds, jitter included.';
comment on column tidegate.retry_after.p50_ms is 'Milliseconds until the end with 50 percent chance; null: unknown.';
comment on column tidegate.retry_after.p90_ms is 'Milliseconds until the end with 90 percent chance; null: unknown.';

comment on table tidegate.response_backoff is 'B(E): Retry-After of awaited responses; written by operators.';
comment on column tidegate.response_backoff.from_elapsed is 'Time since the receipt from which the row applies.';
comment on column tidegate.response_backoff.seconds is 'The Retry-After, seconds.';

comment on table tidegate.finish_sample is 'Append-only: ends per statement, with durations and ETA errors.';
comment on column tidegate.finish_sample.kind is 'The kind.';
comment on column tidegate.finish_sample.at is 'When.';
comment on column tidegate.finish_sample.requests is 'How many requests ended.';
comment on column tidegate.finish_sample.answer_ms is 'Milliseconds from claim to answer, of at most eight of them.';
comment on column tidegate.finish_sample.predicted is 'Ends with an ETA from submission, cancelled ones excluded.';
comment on column tidegate.finish_sample.error_ms is 'Sum of end minus ETA, milliseconds; negative: earlier.';
comment on column tidegate.finish_sample.error_abs_ms is 'The same without signs.';
comment on column tidegate.finish_sample.error_bins is 'Ends ≤ -30, -5, -1, 0, 1, 5, 30 s after their ETA, and rest.';
comment on column tidegate.finish_sample.p90_stated is 'Ends with a 90 percent ETA from submission.';
comment on column tidegate.finish_sample.p90_held is 'How many of these ended within it.';
comment on index tidegate.finish_sample_kind_at_idx is 'Serves take_samples: the latest answers of a kind.';

comment on table tidegate.answer_sample is 'Durations of the latest answers by kind; written by take_samples.';
comment on column tidegate.answer_sample.kind is 'The kind.';
comment on column tidegate.answer_sample.at is 'When they came.';
comment on column tidegate.answer_sample.answer_ms is 'Milliseconds from claim to answer, of at most eight.';
comment on index tidegate.answer_sample_kind_at_idx is 'Serves take_samples: the latest answers of a kind.';

comment on table tidegate.eta_quality_total is 'One row per kind: folded finish samples; written by take_samples.';
comment on column tidegate.eta_quality_total.kind is 'The kind.';
comment on column tidegate.eta_quality_total.requests is 'How many requests ended.';
comment on column tidegate.eta_quality_total.predicted is 'Ends with an ETA from submission.';
comment on column tidegate.eta_quality_total.error_ms is 'Sum of end minus ETA, milliseconds.';
comment on column tidegate.eta_quality_total.error_abs_ms is 'The same without signs.';
comment on column tidegate.eta_quality_total.error_bins is 'As in finish_sample.';
comment on column tidegate.eta_quality_total.p90_stated is 'Ends with a 90 percent ETA from submission.';
comment on column tidegate.eta_quality_total.p90_held is 'How many of these ended within it.';

comment on table tidegate.poll_count is 'Polls and their lateness by kind; written by API nodes (count_polls).';
comment on column tidegate.poll_count.kind is 'The kind.';
comment on column tidegate.poll_count.answered is 'Requests whose end a poll returned.';
comment on column tidegate.poll_count.polls is 'Polls of these, that one included.';
comment on column tidegate.poll_count.lateness_ms is 'Sum of the times from an end to that poll, milliseconds.';

comment on table tidegate.queue_sample is 'First waiting message by queue and second, for a minute (take_samples).';
comment on column tidegate.queue_sample.queue is 'The queue.';
comment on column tidegate.queue_sample.at is 'When.';
comment on column tidegate.queue_sample.head is 'Number of the first waiting message; null: no use for the pace.';

comment on table tidegate.queue_pace is 'How fast the messages of a queue leave it; written by take_samples.';
comment on column tidegate.queue_pace.queue is 'The queue.';
comment on column tidegate.queue_pace.head is 'The number of the first waiting message; null: nothing waits.';
comment on column tidegate.queue_pace.head_since is 'Since when that message is the first.';
comment on column tidegate.queue_pace.still_since is 'Start of a standstill with waiting messages; null: none.';
comment on column tidegate.queue_pace.per_second is 'Messages per second over 30 s with a backlog; null: unknown.';
comment on column tidegate.queue_pace.held_ms is 'Mean time in a claim over five minutes; null: too few.';
comment on column tidegate.queue_pace.observed_at is 'When this was observed; ETAs use it for ten seconds.';

comment on table tidegate.kind_pace is 'Answer times by kind, from claim to end; written by take_samples.';
comment on column tidegate.kind_pace.kind is 'The kind.';
comment on column tidegate.kind_pace.samples is 'Number of answers of the last ten minutes in use, about 1000 at most.';
comment on column tidegate.kind_pace.answer_ms is '40 quantiles, claim to end, milliseconds; null: few samples.';
comment on column tidegate.kind_pace.in_flight is 'How many requests are being sent or await their response.';
comment on column tidegate.kind_pace.in_flight_since is 'Since when there are any.';
comment on column tidegate.kind_pace.still_since is 'Start of a standstill of answers; null: none.';
comment on column tidegate.kind_pace.observed_at is 'When this was observed; ETAs use it for ten seconds.';
