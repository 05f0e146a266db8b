-- The pages for operators: their sessions, the scopes that they need, and how good ETAs were by the minute.

alter table tidegate.api_key
  drop constraint api_key_scopes_are_known,
  add constraint api_key_scopes_are_known
    check (scopes <@ '{submit,submit-accepted,respond,read,payload,admin}');

-- Only a hash of a token is here: the browser has the token. Keys are never deleted, so they need no foreign key.
create table tidegate.page_session (
  token_hash bytea primary key,
  key_id     text not null,
  began_at   timestamptz not null default tidegate.clock(),
  expires_at timestamptz not null,
  constraint page_session_token_hash_is_a_sha256 check (length(token_hash) = 32)
);
create index page_session_expires_at_idx on tidegate.page_session (expires_at);

-- The totals of `eta_quality` at the beginning of each minute of a day.
create table tidegate.eta_minute (
  kind         text not null,
  minute       timestamptz not null,
  predicted    bigint not null,
  error_ms     numeric not null,
  error_abs_ms numeric not null,
  p90_stated   bigint not null,
  p90_held     bigint not null,
  polls        bigint not null,
  answered     bigint not null,
  lateness_ms  bigint not null,
  primary key (minute, kind)
);
