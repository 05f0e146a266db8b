-- Comments on the tables of this folder's subject.

-- table retention_walk: How far the round of expire_requests has come, kind by kind.
--   kind: The kind.
--   after: The round has examined the kind's requests up to this id.

-- table maintenance: One row per maintenance duty: period and progress; written by maintain.
--   duty: The duty.
--   period: How often it is due.
--   ran_at: When it last began.
--   took_ms: Duration of that run, milliseconds; long duties run less often.
--   cursor_at: Deadline sweeps: earlier deadlines are done.
--   cursor_id: Deadline sweeps: last request done with that deadline.
--   error: Why it fails; null: it does not.
--   failing_since: Since when it fails.
--   seen_at: Deadline sweeps: what may have been missed has a later deadline.
--   mark_at: Deadline sweeps: when the mark was set.
--   mark_xact: Deadline sweeps: the mark: transactions before it had begun by mark_at.

-- table passed_over: Requests that a duty can neither end nor delete; written by the duties.
--   request_id: The request.
--   duty: The duty.
--   since: When the duty first failed for it.
--   retry_at: When it is tried again; long over: the request has ended otherwise.
--   error: What refused it.

-- index passed_over_retry_idx: Serves the deadline sweeps: what to try again.

-- table schema_state: What migrate last applied, one row a schema: tidegate, and those of programs that embed it.
--   schema: Its name.
--   fingerprint: Of its migrations, functions and checks.
--   version: The version of Tidegate that applied them.
--   applied_at: When.
--   checks: A program's checks for doctor: their names, rules and queries.
--   build: The number of that version's SQL: a later build has a higher one.
--   objects: The functions, triggers, views, grants and group roles that migrate left, each with a digest.

-- table refinery_schema_history: The migrations applied, one row each; written by migrate.
--   version: The number of the migration.
--   name: Its name.
--   applied_on: When it was applied.
--   checksum: The checksum of its text.
