-- Comments on the tables of this folder's subject.

comment on table tidegate.recovery is 'Runs of recover; a batch by hand that changed something is a run too.';
comment on column tidegate.recovery.id is 'The run.';
comment on column tidegate.recovery.began_at is 'When it began.';
comment on column tidegate.recovery.last_at is 'When one of its batches last did something.';
comment on column tidegate.recovery.ended_at is 'When it came to its end; null: it is under way, or died.';
comment on column tidegate.recovery.actor is 'The database user.';
comment on column tidegate.recovery.on_behalf_of is 'The requester, as the program reports.';
comment on column tidegate.recovery.options is 'Its options.';
comment on column tidegate.recovery.figures is 'Requests per action; responses, counts, gates, storages, strays.';

comment on table tidegate.redrive is 'Requests that have failed or timed out and were submitted again, and as what.';
comment on column tidegate.redrive.request_id is 'The old request; submitted again once at most.';
comment on column tidegate.redrive.redriven_as is 'New request, or an earlier one with the same derived key.';
comment on column tidegate.redrive.at is 'When.';
comment on column tidegate.redrive.actor is 'The database user.';
comment on column tidegate.redrive.on_behalf_of is 'The requester, as the program reports.';
comment on index tidegate.redrive_redriven_as_idx is 'Serves the way from a new request to the old one.';
