drop table if exists jobs;
create table jobs (
  id        bigint generated always as identity primary key,
  kind      text        not null,
  payload   jsonb       not null,
  state     smallint    not null default 0,   -- 0 ready, 1 running, 2 done
  priority  smallint    not null default 0,
  attempts  smallint    not null default 0,
  run_at    timestamptz not null default now(),
  locked_at timestamptz
);
create index jobs_ready on jobs (priority, run_at, id) where state = 0;

-- For single inserts that bring a key.
create table keyed_jobs (like jobs including all, key text not null unique);
