-- Comments on the tables and types of this folder's subject.

-- table webhook_host: The hosts that callback URLs may name; written by operators.
--   host: A name, address or wildcard (*.example.com); with its port unless default.
--   allow_private: Whether it may have private and loopback addresses; link-local ones, where clouds keep their
--     secrets, never.
--   created_at: When it was allowed.
--   created_by: The database user that allowed it.

-- table webhook_secret: The keys that sign deliveries; only the owner may read the column secret.
--   id: Ascending: the latest is the largest.
--   host: Its entry in webhook_host; null: for hosts without a secret.
--   secret: The HMAC key, as the receiver gets it.
--   created_at: When it was made.
--   expires_at: When it no longer signs; null: it is the current one.

-- table webhook_policy: One row: how deliveries are tried; written by operators.
--   only_row: Always true: there is one row.
--   attempts: Attempts in all before a delivery has failed.
--   base_ms: The longest wait after the first attempt, milliseconds.
--   factor: Multiplies the longest wait with each further attempt.
--   cap_ms: The longest wait, milliseconds; also bounds a Retry-After.
--   timeout_ms: Timeout of one attempt, milliseconds, connecting included.
--   per_host: Most deliveries under way to one host and port, in all.
--   retention: How long ended deliveries are kept, unless their request goes.

-- table webhook_answer: Whether receivers answered when they were last called; written by webhook_settle.
--   host_port: The host and its port.
--   answers: Whether it answered, with any status.
--   at: When that was, to the minute.

-- table webhook_delivery: The outbox: a row per ended request with a callback URL.
--   request_id: The request.
--   id: The delivery id, the same at every attempt, as an idempotency key.
--   event: request.ended; or request.resolved, by which time that of the end is no longer made.
--   url: The callback URL of the request, or of its kind, at its end.
--   host_port: Host and port of url in lower case; ? when it names none.
--   state: pending, delivered (the receiver answered 2xx) or failed.
--   attempt: Attempts begun since it was last made pending.
--   due_at: When the next attempt may begin, or the lease of this one ends.
--   lease_token: The lease token of the attempt under way; null: none is.
--   last_status: The status of the last answer; null: there was none.
--   last_error: The last error; null: none, or it was delivered.
--   created_at: When the request ended.
--   finished_at: When it was delivered or failed; null while pending.

-- index webhook_delivery_due_idx: Serves webhook_claim: for each host, the longest due first.

-- index webhook_delivery_held_idx: Serves the bound on deliveries under way to one host.

-- index webhook_delivery_failed_idx: Serves lists of failed deliveries and their redelivery.

-- index webhook_delivery_finished_idx: Serves expire_webhooks: the longest ended first.
