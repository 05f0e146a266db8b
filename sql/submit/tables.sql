-- What the tables of this folder's subject are for, column by column.

comment on table tidegate.dedup is 'Idempotency keys and the request each stands for; written by submit.';
comment on column tidegate.dedup.scope is
  'The kind and submitter within which a caller''s key counts, KIND:SUBMITTER; or a key that the kind has made, '
  'natural or proxy '
  'KIND:SUBMITTER HASH.';
comment on column tidegate.dedup.key is
  'The caller''s idempotency key, 1 to 255 characters; of a made key the beginning of its time bucket in UTC, or any '
  'time.';
comment on column tidegate.dedup.fingerprint is 'SHA-256 of the payload in canonical form.';
comment on column tidegate.dedup.request_id is 'The request that the key stands for.';
comment on column tidegate.dedup.first_seen is 'When that request was accepted.';
comment on column tidegate.dedup.dedup_window is 'How long the key stands for it: what the policy said then.';
comment on column tidegate.dedup.expires_at is
  'Until when the key stands for it and is stored: first_seen + dedup_window.';
comment on index tidegate.dedup_expires_at_idx is 'Finds expired keys, oldest first.';

comment on table tidegate.submission_sample is
  'Append-only: the submissions of a kind that an API node has let in since it last wrote; written through '
  'count_submissions.';
comment on column tidegate.submission_sample.kind is 'The kind.';
comment on column tidegate.submission_sample.at is 'When the node wrote.';
comment on column tidegate.submission_sample.submitted is 'Submissions that were accepted or replayed.';
comment on column tidegate.submission_sample.replayed is
  'Of these the duplicates, which were answered with an earlier request.';
comment on index tidegate.submission_sample_kind_at_idx is 'Finds the latest, or the oldest, of a kind.';

comment on table tidegate.submit_terms is
  'One row per kind whose submissions may be plain: what they have to know, ready-made; kept by triggers of its '
  'sources.';
comment on column tidegate.submit_terms.kind is 'The kind.';
comment on column tidegate.submit_terms.flow is 'Its flow.';
comment on column tidegate.submit_terms.queue is 'Its tx queue.';
comment on column tidegate.submit_terms.gate is 'The gate of that queue.';
comment on column tidegate.submit_terms.high_water is 'At which depth that gate closes, in messages.';
comment on column tidegate.submit_terms.deadline is
  'After what time from its submission a request ends without a receipt.';
comment on column tidegate.submit_terms.response_threshold is 'How many shares complete a request.';
comment on column tidegate.submit_terms.set_paths is 'Where payloads have arrays whose order does not matter.';
comment on column tidegate.submit_terms.makes_keys is
  'Whether the kind makes idempotency keys where callers send none.';
comment on column tidegate.submit_terms.dedup_window is 'How long a key stands for its request.';
comment on column tidegate.submit_terms.has_breaker is 'Whether its sends have a breaker.';
comment on column tidegate.submit_terms.has_quotas is 'Whether any submitter has a cap.';
comment on column tidegate.submit_terms.min_seconds is 'The smallest Retry-After.';
comment on column tidegate.submit_terms.max_seconds is 'The largest Retry-After.';
comment on column tidegate.submit_terms.eta_first is 'See eta_line: its first.';
comment on column tidegate.submit_terms.eta_each is 'See eta_line: its each.';
comment on column tidegate.submit_terms.eta_below is 'See eta_line: its below; null: nothing leaves the queue.';
