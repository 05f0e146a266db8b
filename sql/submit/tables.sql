-- Comments on the tables and types of this folder's subject.

-- table dedup: Idempotency keys and the request each stands for; written by submit.
--   scope: That of key_scope, KIND:SUBMITTER or KIND:; for a derived key natural or proxy, this, and HASH.
--   key: The caller's idempotency key; for a derived key its time bucket, or any time.
--   fingerprint: SHA-256 of the payload in canonical form; empty: the key stands for any payload.
--   request_id: The request that the key stands for.
--   first_seen: When that request was accepted.
--   dedup_window: How long the key stands for an ended request, by the policy of the submission.
--   expires_at: When to examine whether the key still stands; not before its window is over.

-- index dedup_expires_at_idx: Finds the keys to examine, the longest due first.

-- table submission_sample: Append-only: submissions of a kind since its last row, for ten minutes.
--   kind: The kind.
--   at: When they were counted.
--   submitted: Submissions that were accepted or replayed.
--   replayed: Those of them that were answered with an earlier request.
--   counter: The value of the kind's sequence of replays at that time.

-- index submission_sample_kind_at_idx: Finds the latest, or the oldest, of a kind.

-- table submit_terms: One row per kind of which submit stores plain requests itself; kept by triggers on its sources.
--   kind: The kind.
--   flow: Its flow.
--   queue: Its tx queue.
--   gate: The gate of that queue.
--   high_water: The depth, in messages, at which that gate closes.
--   deadline: How long after its submission a request ends without a receipt.
--   response_threshold: How many shares complete a request.
--   set_paths: Where payloads have arrays whose order does not matter.
--   derives_keys: Whether the kind derives keys for requests without one, or refuses these.
--   key_scope: Whose keys meet.
--   dedup_window: How long a key stands for its request.
--   has_breaker: Whether its sends have a breaker.
--   has_quotas: Whether any submitter has a quota.
--   min_seconds: The smallest Retry-After.
--   max_seconds: The largest Retry-After.
--   eta_first: See eta_line: its first, in millionths; null: the ETA is observed.
--   eta_each: See eta_line: its each, in millionths; null: the ETA is observed.
--   eta_below: See eta_line: its below, in millionths; null: nothing leaves the queue, or the ETA is observed.
--   compares_payloads: Whether a known key is refused with another payload.
