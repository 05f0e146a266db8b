-- Comments on the tables of this folder's subject.

-- type eta_terms: The inputs of an ETA besides the place and position of a request.
--   tx_queue_size: Q, messages that wait in the tx queue.
--   drain_tps: D, sends per second; null: no limit, 0: stopped or paused.
--   concurrency: C, checks at once; null: no limit, 0: stopped or paused.
--   safety_margin: M, a share.
--   min_seconds: The smallest answer.
--   max_seconds: The largest answer.
--   jitter: Largest random share added to an answer.

-- type retry_after: The Retry-After of a request.
--   seconds: Whole seconds, jitter included.
--   p50_ms: Milliseconds until the end with 50 percent chance; null: unknown.
--   p90_ms: Milliseconds until the end with 90 percent chance; null: unknown.

-- table response_backoff: B(E): Retry-After of awaited responses; written by operators.
--   from_elapsed: Time since the receipt from which the row applies.
--   seconds: The Retry-After, seconds.

-- table finish_sample: Append-only: ends per statement, with durations and ETA errors.
--   kind: The kind.
--   at: When.
--   requests: How many requests ended.
--   answer_ms: Milliseconds from claim to answer, of at most eight of them.
--   predicted: Ends with an ETA from submission, cancelled ones excluded.
--   error_ms: Sum of end minus ETA, milliseconds; negative: earlier.
--   error_abs_ms: The same without signs.
--   error_bins: Ends ≤ -30, -5, -1, 0, 1, 5, 30 s after their ETA, and rest.
--   p90_stated: Ends with a 90 percent ETA from submission.
--   p90_held: How many of these ended within it.

-- index finish_sample_kind_at_idx: Serves take_samples: the latest answers of a kind.

-- table answer_sample: Durations of the latest answers by kind; written by take_samples.
--   kind: The kind.
--   at: When they came.
--   answer_ms: Milliseconds from claim to answer, of at most eight.

-- index answer_sample_kind_at_idx: Serves take_samples: the latest answers of a kind.

-- table eta_quality_total: One row per kind: folded finish samples; written by take_samples.
--   kind: The kind.
--   requests: How many requests ended.
--   predicted: Ends with an ETA from submission.
--   error_ms: Sum of end minus ETA, milliseconds.
--   error_abs_ms: The same without signs.
--   error_bins: As in finish_sample.
--   p90_stated: Ends with a 90 percent ETA from submission.
--   p90_held: How many of these ended within it.

-- table poll_count: Polls and their lateness by kind; written by API nodes (count_polls).
--   kind: The kind.
--   answered: Requests whose end a poll returned.
--   polls: Polls of these, that one included.
--   lateness_ms: Sum of the times from an end to that poll, milliseconds.

-- table queue_sample: First waiting message by queue and second, for a minute (take_samples).
--   queue: The queue.
--   at: When.
--   head: Number of the first waiting message, or that of turns_head; null: no use for the pace.

-- table queue_pace: How fast the messages of a queue leave it; written by take_samples.
--   queue: The queue.
--   head: The number of the first waiting message, or that of turns_head; null: nothing waits.
--   head_since: Since when it is that.
--   still_since: Start of a standstill with waiting messages; null: none.
--   per_second: Messages per second over 30 s with a backlog; null: unknown.
--   per_round: Services of a fair queue in which each key of weight 1 had one, over 30 s; null: unknown.
--   held_ms: Mean time in a claim over five minutes; null: too few.
--   observed_at: When this was observed; ETAs use it for ten seconds.

-- table kind_pace: Answer times by kind, from claim to end; written by take_samples.
--   kind: The kind.
--   samples: Number of answers of the last ten minutes in use, about 1000 at most.
--   answer_ms: 40 quantiles, claim to end, milliseconds; null: few samples.
--   in_flight: How many requests are being sent or await their response.
--   in_flight_since: Since when there are any.
--   still_since: Start of a standstill of answers; null: none.
--   observed_at: When this was observed; ETAs use it for ten seconds.

-- table eta_minute: What eta_quality and poll_count had summed up by each minute, for a day.
--   kind: The kind.
--   minute: The beginning of the minute.
--   predicted: Completed requests that had an ETA.
--   error_ms: All errors together, milliseconds; negative: earlier.
--   error_abs_ms: The same without signs.
--   p90_stated: Completed requests that had a 90 percent ETA.
--   p90_held: How many of these were answered within it.
--   polls: Polls of requests whose end was answered to a poll.
--   answered: Such requests.
--   lateness_ms: The sum of the times between their ends and the last poll, milliseconds.
