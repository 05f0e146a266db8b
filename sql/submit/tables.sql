-- Comments on the tables and types of this folder's subject.

comment on table tidegate.dedup is 'Idempotency keys and the request each stands for; written by submit.';
comment on column tidegate.dedup.scope is 'KIND:SUBMITTER; for a made key, natural or proxy KIND:SUBMITTER HASH.';
comment on column tidegate.dedup.key is 'The caller''s idempotency key; for a made key its time bucket, or any time.';
comment on column tidegate.dedup.fingerprint is 'SHA-256 of the payload in canonical form.';
comment on column tidegate.dedup.request_id is 'The request that the key stands for.';
comment on column tidegate.dedup.first_seen is 'When that request was accepted.';
comment on column tidegate.dedup.dedup_window is 'How long the key stands for it, by the policy of that time.';
comment on column tidegate.dedup.expires_at is 'Until when the key stands for its request: first_seen + dedup_window.';
comment on index tidegate.dedup_expires_at_idx is 'Finds expired keys, oldest first.';

comment on table tidegate.submission_sample is 'Append-only: how many submissions of a kind a node has accepted.';
comment on column tidegate.submission_sample.kind is 'The kind.';
comment on column tidegate.submission_sample.at is 'When the node wrote.';
comment on column tidegate.submission_sample.submitted is 'Submissions that were accepted or replayed.';
comment on column tidegate.submission_sample.replayed is 'Those of them that were answered with an earlier request.';
comment on index tidegate.submission_sample_kind_at_idx is 'Finds the latest, or the oldest, of a kind.';

comment on table tidegate.submit_terms is 'One row per kind that submit_plain serves; kept by triggers on its sources.';
comment on column tidegate.submit_terms.kind is 'The kind.';
comment on column tidegate.submit_terms.flow is 'Its flow.';
comment on column tidegate.submit_terms.queue is 'Its tx queue.';
comment on column tidegate.submit_terms.gate is 'The gate of that queue.';
comment on column tidegate.submit_terms.high_water is 'The depth, in messages, at which that gate closes.';
comment on column tidegate.submit_terms.deadline is 'How long after its submission a request ends without a receipt.';
comment on column tidegate.submit_terms.response_threshold is 'How many shares complete a request.';
comment on column tidegate.submit_terms.set_paths is 'Where payloads have arrays whose order does not matter.';
comment on column tidegate.submit_terms.makes_keys is 'Whether the kind makes keys for requests without one.';
comment on column tidegate.submit_terms.dedup_window is 'How long a key stands for its request.';
comment on column tidegate.submit_terms.has_breaker is 'Whether its sends have a breaker.';
comment on column tidegate.submit_terms.has_quotas is 'Whether any submitter has a quota.';
comment on column tidegate.submit_terms.min_seconds is 'The smallest Retry-After.';
comment on column tidegate.submit_terms.max_seconds is 'The largest Retry-After.';
comment on column tidegate.submit_terms.eta_first is 'See eta_line: its first.';
comment on column tidegate.submit_terms.eta_each is 'See eta_line: its each.';
comment on column tidegate.submit_terms.eta_below is 'See eta_line: its below; null: nothing leaves the queue.';
