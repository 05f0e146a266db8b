-- Plain submissions of kinds with observed ETAs: their times come from `kind_pace` and `queue_pace` (see `entry_eta`).

alter table tidegate.submit_terms
  alter column eta_first drop not null,
  alter column eta_each drop not null;

-- Beside `eta_p90_ms`: a submission in a group returns both.
alter table tidegate.request add column eta_p50_ms numeric;

-- PostgreSQL parses each check at each statement that writes a row: these took 2 % of every submission and another 5 %
-- of those with a key, and nothing depends on them. A key whose time to be examined comes early stays (`expire_keys`),
-- and a trace that cannot be read is not passed on.
alter table tidegate.request drop constraint request_traceparent_has_55_characters;
alter table tidegate.dedup
  drop constraint dedup_expires_no_earlier_than_its_window,
  drop constraint dedup_expires_after_it_is_seen;
