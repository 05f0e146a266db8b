-- Comments on the tables and types of this folder's subject.

-- type lease: One request of a queue that a worker holds, under the token of its claim.
--   queue: The queue that it was claimed from.
--   token: The random number of the claim; a row that names no such token is not held.
--   id: The request.

-- table claim: A row for each claim, or part of one; a request is held while it names the token.
--   token: The random number of the claim, which the rows of its requests name.
--   part: Counts the parts of a claim that end at different times, from 0.
--   queue: The queue that it was made on.
--   worker: The worker that claimed.
--   claimed_at: When it claimed.
--   until: When the lease runs out.
--   lease_ms: The lease time; more is left of it only after the clock stepped back.
--   ids: The requests it took, the last one first; those that left it stay listed.

-- index claim_queue_until_idx: Finds leases that have run out, queue by queue.
