-- Comments on the tables and types of this folder's subject.

comment on table tidegate.webhook_host is 'The hosts that callback URLs may name; written by operators.';
comment on column tidegate.webhook_host.host is
  'A name, address or wildcard (*.example.com); with its port unless default.';
comment on column tidegate.webhook_host.allow_private is
  'Whether it may have private and loopback addresses; link-local ones, where clouds keep their secrets, never.';
comment on column tidegate.webhook_host.created_at is 'When it was allowed.';
comment on column tidegate.webhook_host.created_by is 'The database user that allowed it.';

comment on table tidegate.webhook_secret is 'The keys that sign deliveries; only the owner may read the column secret.';
comment on column tidegate.webhook_secret.id is 'Ascending: the latest is the largest.';
comment on column tidegate.webhook_secret.host is 'Its entry in webhook_host; null: for hosts without a secret.';
comment on column tidegate.webhook_secret.secret is 'The HMAC key, as the receiver gets it.';
comment on column tidegate.webhook_secret.created_at is 'When it was made.';
comment on column tidegate.webhook_secret.expires_at is 'When it no longer signs; null: it is the current one.';

comment on table tidegate.webhook_policy is 'One row: how deliveries are tried; written by operators.';
comment on column tidegate.webhook_policy.only_row is 'Always true: there is one row.';
comment on column tidegate.webhook_policy.attempts is 'Attempts in all before a delivery has failed.';
comment on column tidegate.webhook_policy.base_ms is 'The longest wait after the first attempt, milliseconds.';
comment on column tidegate.webhook_policy.factor is 'Multiplies the longest wait with each further attempt.';
comment on column tidegate.webhook_policy.cap_ms is 'The longest wait, milliseconds; also bounds a Retry-After.';
comment on column tidegate.webhook_policy.timeout_ms is 'Timeout of one attempt, milliseconds, connecting included.';
comment on column tidegate.webhook_policy.per_host is 'Most deliveries under way to one host and port, in all.';
comment on column tidegate.webhook_policy.retention is 'How long ended deliveries are kept, unless their request goes.';

comment on table tidegate.webhook_delivery is 'The outbox: a row per ended request with a callback URL.';
comment on column tidegate.webhook_delivery.request_id is 'The request.';
comment on column tidegate.webhook_delivery.id is 'The delivery id, the same at every attempt, as an idempotency key.';
comment on column tidegate.webhook_delivery.url is 'The callback URL of the request, or of its kind, at its end.';
comment on column tidegate.webhook_delivery.host_port is 'Host and port of url in lower case; ? when it names none.';
comment on column tidegate.webhook_delivery.state is 'pending, delivered (the receiver answered 2xx) or failed.';
comment on column tidegate.webhook_delivery.attempt is 'Attempts begun since it was last made pending.';
comment on column tidegate.webhook_delivery.due_at is 'When the next attempt may begin, or the lease of this one ends.';
comment on column tidegate.webhook_delivery.nonce is 'The lease token of the attempt under way; null: none is.';
comment on column tidegate.webhook_delivery.last_status is 'The status of the last answer; null: there was none.';
comment on column tidegate.webhook_delivery.last_error is 'The last error; null: none, or it was delivered.';
comment on column tidegate.webhook_delivery.created_at is 'When the request ended.';
comment on column tidegate.webhook_delivery.finished_at is 'When it was delivered or failed; null while pending.';
comment on index tidegate.webhook_delivery_due_idx is 'Serves webhook_claim: for each host, the longest due first.';
comment on index tidegate.webhook_delivery_held_idx is 'Serves the bound on deliveries under way to one host.';
comment on index tidegate.webhook_delivery_failed_idx is 'Serves lists of failed deliveries and their redelivery.';
comment on index tidegate.webhook_delivery_finished_idx is 'Serves expire_webhooks: the longest ended first.';
