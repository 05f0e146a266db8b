-- What the tables of this folder's subject are for, column by column.

comment on type tidegate.lease is
  'What a worker holds: one message of a queue, under the nonce that its claim wrote; every settle names it.';
comment on column tidegate.lease.queue is 'The queue of the message.';
comment on column tidegate.lease.msg_id is 'The number of the message in its queue.';
comment on column tidegate.lease.nonce is
  'The random number of the claim; when the message no longer carries it, the lease is lost.';
