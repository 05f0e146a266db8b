-- What the tables of this folder's subject are for, column by column.

comment on type tidegate.lease is
  'What a worker holds: one request of a queue, under the token of its claim; every settle names it.';
comment on column tidegate.lease.queue is 'The queue that it was claimed from.';
comment on column tidegate.lease.token is
  'The random number of the claim; when the row of the request no longer names it, the lease is lost.';
comment on column tidegate.lease.id is 'The request.';

comment on table tidegate.claim is
  'What workers hold: a row for each claim, or for each part of one; a request is held while its row names the token.';
comment on column tidegate.claim.token is 'The random number of the claim, which the rows of its requests name.';
comment on column tidegate.claim.part is 'Counts the parts of a claim that end at different times, from 0.';
comment on column tidegate.claim.queue is 'The queue that it took from.';
comment on column tidegate.claim.worker is 'The worker that claimed.';
comment on column tidegate.claim.claimed_at is 'When it claimed.';
comment on column tidegate.claim.until is 'When the lease runs out.';
comment on column tidegate.claim.lease_ms is
  'How long it lasts from its claim or its last extension; more is left only after the clock stepped back.';
comment on column tidegate.claim.ids is
  'The requests that it took, the last one first; those that have left it remain in it.';
comment on index tidegate.claim_queue_until_idx is 'Finds leases that have run out, queue by queue.';
