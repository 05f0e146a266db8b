-- Kinds whose requests stay in their queues while those of other kinds are served.

alter table tidegate.kind
  add column paused boolean not null default false;

alter table tidegate.queue
  add column paused_kinds text[] not null default '{}';
