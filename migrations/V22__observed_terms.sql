-- Plain submissions of kinds with observed ETAs: their times come from `kind_pace` and `queue_pace` (see `entry_eta`).

alter table tidegate.submit_terms
  alter column eta_first drop not null,
  alter column eta_each drop not null;

-- Beside `eta_p90_ms`: a submission in a group returns both.
alter table tidegate.request add column eta_p50_ms numeric;
