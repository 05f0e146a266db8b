-- Comments on the tables of this folder's subject.

comment on table tidegate.retention_walk is 'How far the round of expire_requests has come, kind by kind.';
comment on column tidegate.retention_walk.kind is 'The kind.';
comment on column tidegate.retention_walk.after is 'The round has examined the kind''s requests up to this id.';

comment on table tidegate.maintenance is 'One row per maintenance duty: period and progress; written by maintain.';
comment on column tidegate.maintenance.duty is 'The duty.';
comment on column tidegate.maintenance.period is 'How often it is due.';
comment on column tidegate.maintenance.ran_at is 'When it last began.';
comment on column tidegate.maintenance.took_ms is 'Duration of that run, milliseconds; long duties run less often.';
comment on column tidegate.maintenance.cursor_at is 'Deadline sweeps: earlier deadlines are done.';
comment on column tidegate.maintenance.cursor_id is 'Deadline sweeps: last request done with that deadline.';

comment on table tidegate.schema_state is 'One row: what migrate last applied; written by migrate.';
comment on column tidegate.schema_state.only_row is 'Always true: there is one row.';
comment on column tidegate.schema_state.fingerprint is 'Of all migrations and all files below sql/.';
comment on column tidegate.schema_state.version is 'The version of the program that applied them.';
comment on column tidegate.schema_state.applied_at is 'When.';

do $$
begin
  if to_regclass('tidegate.schema_history') is not null then
    comment on table tidegate.schema_history is 'The migrations applied, one row each; written by migrate.';
    comment on column tidegate.schema_history.version is 'The number of the migration.';
    comment on column tidegate.schema_history.name is 'Its name.';
    comment on column tidegate.schema_history.applied_on is 'When it was applied.';
    comment on column tidegate.schema_history.checksum is 'The checksum of its text.';
  end if;
end;
$$;
