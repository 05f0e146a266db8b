-- A day of history by the minute.

create table tidegate.call_minute (
  kind     text not null,
  stage    tidegate.stage not null,
  minute   timestamptz not null,
  calls    bigint not null,
  failures bigint not null,
  timeouts bigint not null,
  retries  bigint not null,
  p50_ms   integer,
  p99_ms   integer,
  primary key (minute, kind, stage)
);

create table tidegate.queue_minute (
  queue   text not null,
  minute  timestamptz not null,
  depth   bigint not null,
  drained bigint not null default 0,
  primary key (minute, queue)
);

insert into tidegate.maintenance (duty, period) values ('note_minutes', '20 seconds');
