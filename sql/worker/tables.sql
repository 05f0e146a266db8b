-- Comments on the tables and types of this folder's subject.

-- table worker: One row per worker; written by worker_seen.
--   name: The worker's name; requests and claims that it holds name it.
--   stages: The stages it runs.
--   queues: The queues it drains.
--   started_at: When it was first seen.
--   last_seen_at: When it was last seen.
--   kinds: The kinds that it has a stage for; null: all.
--   stopped_at: When it reported that it is stopping; null: it has not.
