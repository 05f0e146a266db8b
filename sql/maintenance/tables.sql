-- What the tables of this folder's subject are for, column by column.

comment on table tidegate.retention_walk is 'How far the round of expire_requests has come, kind by kind.';
comment on column tidegate.retention_walk.kind is 'The kind.';
comment on column tidegate.retention_walk.after is
  'Every request of the kind up to this id was looked at in this round.';

comment on table tidegate.maintenance is
  'One row per maintenance duty: how often it is due and how far it has come; written by tidegate.maintain.';
comment on column tidegate.maintenance.duty is 'The duty.';
comment on column tidegate.maintenance.period is 'How often it is due.';
comment on column tidegate.maintenance.ran_at is 'When it last began.';
comment on column tidegate.maintenance.took_ms is
  'How long it took then, milliseconds; a duty that takes long runs less often.';
comment on column tidegate.maintenance.cursor_at is
  'Of the deadline sweeps: deadlines before this one have been dealt with.';
comment on column tidegate.maintenance.cursor_id is
  'Of the deadline sweeps: the last request dealt with among those with the same deadline.';

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
