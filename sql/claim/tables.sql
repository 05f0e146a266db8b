-- Comments on the tables and types of this folder's subject.

comment on type tidegate.lease is 'One request of a queue that a worker holds, under the token of its claim.';
comment on column tidegate.lease.queue is 'The queue that it was claimed from.';
comment on column tidegate.lease.token is 'The random number of the claim; a row that names no such token is not held.';
comment on column tidegate.lease.id is 'The request.';

comment on table tidegate.claim is 'A row for each claim, or part of one; a request is held while it names the token.';
comment on column tidegate.claim.token is 'The random number of the claim, which the rows of its requests name.';
comment on column tidegate.claim.part is 'Counts the parts of a claim that end at different times, from 0.';
comment on column tidegate.claim.queue is 'The queue that it was made on.';
comment on column tidegate.claim.worker is 'The worker that claimed.';
comment on column tidegate.claim.claimed_at is 'When it claimed.';
comment on column tidegate.claim.until is 'When the lease runs out.';
comment on column tidegate.claim.lease_ms is 'The lease time; more is left of it only after the clock stepped back.';
comment on column tidegate.claim.ids is 'The requests it took, the last one first; those that left it stay listed.';
comment on index tidegate.claim_queue_until_idx is 'Finds leases that have run out, queue by queue.';
