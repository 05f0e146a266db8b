-- How far a chain was read.

-- table cursor: The last block of a chain whose logs were applied.
--   name: The watcher's name: one cursor for each.
--   epoch: That of the singleton that moved it last.
create table evm.cursor (
  name text primary key,
  chain_id bigint not null,
  number bigint not null check (number >= 0),
  hash bytea not null check (length(hash) = 32),
  epoch bigint not null,
  moved_at timestamptz not null default tidegate.clock()
);

-- table block: The last blocks that a watcher read: what a reorganisation is compared with.
create table evm.block (
  cursor_name text not null references evm.cursor,
  number bigint not null,
  hash bytea not null check (length(hash) = 32),
  primary key (cursor_name, number)
);
