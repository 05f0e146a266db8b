-- Who changed the configuration, when, from what to what; and names that kinds may not take.

-- Append-only: one row per column that changed.
create table tidegate.config_change (
  id           bigint generated always as identity primary key,
  at           timestamptz not null default clock_timestamp(),
  actor        text not null default session_user,
  on_behalf_of text,
  operation    text not null,
  table_name   text not null,
  row_key      text not null,
  column_name  text not null,
  old_value    text,
  new_value    text,
  constraint config_change_operation_is_known check (operation in ('insert', 'update', 'delete')),
  constraint config_change_changes_something check (old_value is distinct from new_value)
);

-- Who took or released a gate by hand, as the program that asked says.
alter table tidegate.gate_event add column on_behalf_of text;

-- `/v1/admin/…` and `/v1/responses` are no kinds'.
alter table tidegate.kind
  add constraint kind_name_is_not_admin_or_responses check (name not in ('admin', 'responses'));
