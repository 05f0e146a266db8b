-- config_set: Changes one setting by its documented name; returns what changed, from what to what.
--
--   min_seconds, max_seconds, safety_margin          of every Retry-After
--   response_backoff                                 all its rows: 0s=4,60s=10,120s=30
--   readiness_check_seconds, tx_confirmation_ms      nominal times of every kind, or of one: KIND.…
--   KIND_processing_seconds                          nominal processing time of a kind (also KIND.processing_ms)
--   KIND.eta, KIND.deadline, KIND.retention …        what else a kind has
--   KIND.STAGE.attempts …                            every column of a policy
--   QUEUE.per_seconds, QUEUE.burst                   rate of a tx queue; none for no limit, 0 to stop
--   QUEUE.max_concurrency                            concurrency of a readiness queue; none for no limit, 0 to stop
--   QUEUE.paused                                     whether claims are stopped
--   QUEUE.high_water, QUEUE.low_water, QUEUE.mode    of a queue's gate
--
-- `config_get` lists them all. As `config_set_many` with one change: returns what changed, nothing when it was so
-- before; raises TG010 for an unknown name, TG007 for an invalid value.
create or replace function tidegate.config_set(name text, value text, actor text default null)
  returns table (subject text, setting text, old_value text, new_value text, type text)
  language sql volatile security definer as $$
  select * from tidegate.config_set_many(jsonb_build_object(coalesce(config_set.name, ''), config_set.value),
    config_set.actor);
$$;
select tidegate_internal.allow('config_set', '{admin}');
