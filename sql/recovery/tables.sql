-- Comments on the tables of this folder's subject.

-- table recovery: Runs of recover; a batch by hand that changed something is a run too.
--   id: The run.
--   began_at: When it began.
--   last_at: When one of its batches last did something.
--   ended_at: When it came to its end; null: it is under way, or died.
--   actor: The database user.
--   on_behalf_of: The requester, as the program reports.
--   options: Its options.
--   figures: Requests per action; responses, counts, gates, storages, strays.

-- table redrive: Requests that have failed or timed out and were submitted again, by an operator or under their keys.
--   request_id: The old request; submitted again once at most.
--   redriven_as: New request, or an earlier one with the same derived key.
--   at: When.
--   actor: The database user.
--   on_behalf_of: The requester, as the program reports.

-- index redrive_redriven_as_idx: Serves the way from a new request to the old one.
