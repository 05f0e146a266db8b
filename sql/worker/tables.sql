-- Comments on the tables and types of this folder's subject.

comment on table tidegate.worker is 'One row per worker; written by worker_seen.';
comment on column tidegate.worker.name is 'The worker''s name; requests and claims that it holds name it.';
comment on column tidegate.worker.stages is 'The stages it runs.';
comment on column tidegate.worker.queues is 'The queues it drains.';
comment on column tidegate.worker.started_at is 'When it was first seen.';
comment on column tidegate.worker.last_seen_at is 'When it was last seen.';
comment on column tidegate.worker.kinds is 'The kinds that it has a stage for; null: all.';
comment on column tidegate.worker.stopped_at is 'When it reported that it is stopping; null: it has not.';
