-- Idempotency keys that a kind makes of its payloads, keys that are stored exactly as long as their window, and what nodes
-- count of submissions.

alter table tidegate.kind add column key_mode text not null default 'caller';
alter table tidegate.kind add column key_paths text[];
alter table tidegate.kind add column key_bucket interval;
alter table tidegate.kind add column set_paths text[];
alter table tidegate.kind add constraint kind_key_mode_is_known check (key_mode in ('caller', 'natural', 'proxy'));
alter table tidegate.kind add constraint kind_has_key_paths_iff_its_keys_are_natural
  check ((key_mode = 'natural') = (coalesce(cardinality(key_paths), 0) > 0));
alter table tidegate.kind add constraint kind_key_bucket_is_a_positive_time_of_proxy_keys
  check (key_bucket is null or (key_mode = 'proxy' and key_bucket > interval '0'));
-- A comma would be taken for the end of a path where lists are told as text.
alter table tidegate.kind add constraint kind_key_paths_are_1_to_16_lists_of_members_joined_by_dots check (
  cardinality(key_paths) = 0
  or (array_to_string(key_paths, '', '') !~ '\n'
      and array_to_string(key_paths, chr(10), '') ~ '^[^.,\n]+(\.[^.,\n]+)*(\n[^.,\n]+(\.[^.,\n]+)*){0,15}$')
);
alter table tidegate.kind add constraint kind_set_paths_are_1_to_16_lists_of_members_joined_by_dots check (
  cardinality(set_paths) = 0
  or (array_to_string(set_paths, '', '') !~ '\n'
      and array_to_string(set_paths, chr(10), '') ~ '^[^.,\n]+(\.[^.,\n]+)*(\n[^.,\n]+(\.[^.,\n]+)*){0,15}$')
);

alter table tidegate.policy add constraint policy_dedup_window_is_positive check (dedup_window > interval '0') not valid;

-- A key goes when its window ends, and not by anybody's reckoning. In UTC, where each day has 24 hours. Keys from before
-- have none and go within theirs: there may be millions to rewrite, and an older node may store one at this moment.
alter table tidegate.dedup add column dedup_window interval;
alter table tidegate.dedup add constraint dedup_expires_when_its_window_ends
  check (dedup_window is null or expires_at at time zone 'UTC' = first_seen at time zone 'UTC' + dedup_window) not valid;

-- From now on a finished request stays for its window at least (see `kind_retention`). Nothing has deleted any so far.
update tidegate.kind as k set retention = p.dedup_window
from tidegate.policy as p
where p.kind = k.name and p.stage = 'tx' and k.retention < p.dedup_window;

-- Append-only: the submissions of a kind that one node has let in since it last wrote.
create table tidegate.submission_sample (
  kind      text not null,
  at        timestamptz not null default clock_timestamp(),
  submitted integer not null,
  replayed  integer not null,
  constraint submission_sample_counts_replays_as_submitted check (replayed >= 0 and replayed <= submitted)
);
create index submission_sample_kind_at_idx on tidegate.submission_sample (kind, at);
