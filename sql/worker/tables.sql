-- What the tables of this folder's subject are for, column by column.

comment on table tidegate.worker is 'Who is alive; written by each worker through worker_seen, rarely.';
comment on column tidegate.worker.name is 'The worker''s name; requests and messages that it holds name it.';
comment on column tidegate.worker.stages is 'The stages it runs.';
comment on column tidegate.worker.queues is 'The queues it drains.';
comment on column tidegate.worker.started_at is 'When it was first seen.';
comment on column tidegate.worker.last_seen_at is 'When it was last seen.';
comment on column tidegate.worker.kinds is 'The kinds that it has a stage for; null: all.';
comment on column tidegate.worker.stopped_at is 'When it said that it is stopping; null: it has not.';
