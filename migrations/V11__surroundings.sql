-- What applications, operators and clocks do to a database.

-- Duties that fail; and up to which transaction, and which time, a deadline sweep has seen what was committed.
alter table tidegate.maintenance
  add column error         text,
  add column failing_since timestamptz,
  add column seen_at       timestamptz not null default tidegate.clock(),
  add column mark_at       timestamptz not null default tidegate.clock(),
  add column mark_xact     xid8 not null default pg_snapshot_xmax(pg_current_snapshot());

-- Requests that a duty can neither end nor delete.

create table tidegate.passed_over (
  request_id uuid not null,
  duty       text not null,
  since      timestamptz not null,
  retry_at   timestamptz not null,
  error      text not null,
  constraint passed_over_pkey primary key (request_id, duty)
);

create index passed_over_retry_idx on tidegate.passed_over (duty, retry_at);

-- Whether a receiver of webhooks has answered when it was last called.
create table tidegate.webhook_answer (
  host_port text primary key,
  answers   boolean not null,
  at        timestamptz not null
);

-- How far ahead a request may start: until then it has a place in its queue.
alter table tidegate.kind
  add column not_before_max interval not null default '720:00:00',
  add constraint kind_not_before_max_is_not_negative check (not_before_max >= interval '0');

-- Times are hours, minutes and seconds: a day of the session's time zone may have 23 hours, and a month 31 days.
do $$
declare
  v_column record;
begin
  for v_column in
    select a.attrelid::regclass as name, string_agg(
      format('%1$I = make_interval(secs => extract(epoch from %1$I)::float8)', a.attname), ', '
    ) as columns
    from pg_attribute as a
    where a.attrelid in (
        'tidegate.kind'::regclass, 'tidegate.policy'::regclass, 'tidegate.setting'::regclass,
        'tidegate.webhook_policy'::regclass
      ) and a.atttypid = 'interval'::regtype and a.attnum > 0 and not a.attisdropped
    group by a.attrelid
  loop
    -- These changes are none of an operator's.
    execute format('alter table %s disable trigger user', v_column.name);
    execute format('update %s set %s', v_column.name, v_column.columns);
    execute format('alter table %s enable trigger user', v_column.name);
  end loop;
end;
$$;
