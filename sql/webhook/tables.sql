-- What the tables of this folder's subject are for, column by column.

comment on table tidegate.webhook_host is 'The hosts that callback URLs may name; written by operators.';
comment on column tidegate.webhook_host.host is
  'A name, an address or a wildcard (*.example.com: whatever is below it); with a port unless it is the scheme''s own.';
comment on column tidegate.webhook_host.allow_private is
  'Whether it may have private and loopback addresses; link-local ones, where clouds keep their secrets, never.';
comment on column tidegate.webhook_host.created_at is 'When it was allowed.';
comment on column tidegate.webhook_host.created_by is 'The database user who allowed it.';

comment on table tidegate.webhook_secret is
  'What deliveries are signed with; written by webhook_secret_rotate; only the owner reads the secrets themselves.';
comment on column tidegate.webhook_secret.id is 'Ascending: the latest is the largest.';
comment on column tidegate.webhook_secret.host is
  'The entry of webhook_host it belongs to; null: every host that has none of its own.';
comment on column tidegate.webhook_secret.secret is 'The key of the HMAC, as its receiver gets it.';
comment on column tidegate.webhook_secret.created_at is 'When it was made.';
comment on column tidegate.webhook_secret.expires_at is 'When it no longer signs; null: it is the current one.';

comment on table tidegate.webhook_policy is 'One row: how deliveries are tried; written by operators.';
comment on column tidegate.webhook_policy.only_row is 'Always true: there is one row.';
comment on column tidegate.webhook_policy.attempts is
  'Attempts in all, the first included, before a delivery has failed.';
comment on column tidegate.webhook_policy.base_ms is 'The longest wait after the first attempt, milliseconds.';
comment on column tidegate.webhook_policy.factor is
  'By what the longest wait is multiplied with each further attempt; the wait is random up to it.';
comment on column tidegate.webhook_policy.cap_ms is
  'The longest wait of all, milliseconds; a receiver''s Retry-After counts up to it.';
comment on column tidegate.webhook_policy.timeout_ms is 'Timeout of one attempt, milliseconds, connecting included.';
comment on column tidegate.webhook_policy.per_host is
  'Deliveries under way to one host and port at most, whole fleet.';
comment on column tidegate.webhook_policy.retention is
  'How long deliveries that ended are kept, if their request is kept so long.';

comment on table tidegate.webhook_delivery is
  'The outbox: one row per ended request that somebody is to be told of; written in the transaction that ends it.';
comment on column tidegate.webhook_delivery.request_id is 'The request.';
comment on column tidegate.webhook_delivery.id is
  'The delivery''s own id, the same at every attempt: the receiver''s idempotency key.';
comment on column tidegate.webhook_delivery.url is
  'Where to, as the request or its kind named it when the request ended.';
comment on column tidegate.webhook_delivery.host_port is 'Host and port of url in lower case; ? when it names none.';
comment on column tidegate.webhook_delivery.state is
  'pending; delivered: the receiver answered 2xx; failed: refused, or no attempt is left.';
comment on column tidegate.webhook_delivery.attempt is 'Attempts begun since it was (last) put in line.';
comment on column tidegate.webhook_delivery.due_at is
  'When the next attempt may begin; of one that is under way: when its lease runs out.';
comment on column tidegate.webhook_delivery.nonce is 'The lease of whoever is at it; null: nobody.';
comment on column tidegate.webhook_delivery.last_status is 'The status of the last answer; null: there was none.';
comment on column tidegate.webhook_delivery.last_error is 'What went wrong last; null: nothing, or it was delivered.';
comment on column tidegate.webhook_delivery.created_at is 'When the request ended.';
comment on column tidegate.webhook_delivery.finished_at is 'When it was delivered or failed; null while pending.';
comment on index tidegate.webhook_delivery_due_idx is
  'Serves webhook_claim: host by host, the longest due first, whatever the backlog of another host.';
comment on index tidegate.webhook_delivery_held_idx is 'Serves the bound on deliveries under way to one host.';
comment on index tidegate.webhook_delivery_failed_idx is 'Serves lists of what failed, and delivering it again.';
comment on index tidegate.webhook_delivery_finished_idx is 'Serves expire_webhooks: the longest ended first.';
