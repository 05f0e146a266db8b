-- Databases that are copies, and deadlines of kinds without a check.

-- Which database this is, by what a copy has otherwise. Null: not known yet.
create table tidegate.installation (
  only_row            boolean primary key default true,
  system_identifier   bigint,
  database_oid        oid,
  table_oid           oid,
  quarantined_at      timestamptz,
  quarantined_because text,
  constraint installation_has_one_row check (only_row),
  constraint installation_says_why_iff_quarantined check ((quarantined_at is null) = (quarantined_because is null))
);

insert into tidegate.installation default values;

alter table tidegate.kind
  drop constraint kind_readiness_timeout_is_within_the_deadline,
  add constraint kind_readiness_timeout_is_within_the_deadline
    check (readiness_timeout > interval '0' and (flow <> 'decrypt' or readiness_timeout <= deadline));
