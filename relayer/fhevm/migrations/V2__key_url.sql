-- Where clients find the public key.

-- table key_url: The answer of the key URL; no row before it was read for the first time.
--   answer: The answer, as clients get it.
--   read_at: When it was read from the host chain.
--   only_row: Always true.
create table fhevm.key_url (
  only_row boolean primary key default true check (only_row),
  answer jsonb not null,
  read_at timestamptz not null default tidegate.clock()
);
