-- Wallets, and the transactions that they sign: one row per nonce, and one per signed version of it.

-- table wallet: An account that signs transactions. Its nonces are those of its rows of tx, and no others.
--   first_nonce: Its transaction count when it was adopted: the first nonce that Tidegate may use.
--   in_flight_max: The most transactions that may be signed and not mined.
--   off_cause: Why it is off; null otherwise.
--   unfunded_cause: Why it takes no new orders until it has funds; null otherwise.
--   system_identifier: That of the PostgreSQL cluster at adoption: another one means that the database was copied.
--   timeline_id: That of the cluster at adoption: another one means a restore or a promotion.
create table evm.wallet (
  id smallint generated always as identity primary key,
  chain_id bigint not null check (chain_id > 0),
  address bytea not null check (length(address) = 20),
  name text not null unique check (name ~ '^[a-z0-9_-]{1,50}$'),
  state text not null default 'active' check (state in ('active', 'draining', 'off')),
  off_cause text check ((off_cause is not null) = (state = 'off')),
  unfunded_cause text,
  first_nonce bigint not null check (first_nonce >= 0),
  in_flight_max integer not null default 64 check (in_flight_max > 0),
  system_identifier bigint not null,
  timeline_id integer not null,
  adopted_at timestamptz not null default tidegate.clock(),
  unique (chain_id, address)
);

-- table tx: A nonce of a wallet, taken for one order for ever.
--   order_id: The request that it was signed for, kept when a filler takes its place; null for what resync adopts.
--   calldata: The input of the order's call; null once the transaction is final.
--   state: signed, sent, mined, final, lost (a foreign transaction took the nonce) or void (its filler is final).
--   status: That of the receipt: 1 for success, 0 for a revert.
create table evm.tx (
  wallet smallint not null references evm.wallet,
  nonce bigint not null check (nonce >= 0),
  order_id uuid,
  recipient bytea not null check (length(recipient) = 20),
  calldata bytea,
  gas_limit bigint not null check (gas_limit > 0),
  state text not null default 'signed' check (state in ('signed', 'sent', 'mined', 'final', 'lost', 'void')),
  signed_at timestamptz not null default tidegate.clock(),
  mined_hash bytea check (length(mined_hash) = 32),
  block_number bigint,
  block_hash bytea check (length(block_hash) = 32),
  status smallint check (status in (0, 1)),
  primary key (wallet, nonce),
  check (state not in ('mined', 'final', 'void') or mined_hash is not null)
) with (fillfactor = 80);

-- A second live transaction for one order is impossible.
create unique index tx_order_key on evm.tx (order_id) where state not in ('lost', 'void');

-- table attempt: A signed version of a transaction: written once, never changed but for its last sending.
--   kind: own has the order's call; filler is empty and only uses the nonce up.
--   raw: The signed bytes; null once the transaction is final.
--   answer: What the endpoint said to the last sending, in the words of node_error.
create table evm.attempt (
  wallet smallint not null,
  nonce bigint not null,
  n smallint not null check (n > 0),
  kind text not null check (kind in ('own', 'filler')),
  hash bytea not null unique check (length(hash) = 32),
  raw bytea,
  max_fee numeric(39) not null check (max_fee > 0),
  tip numeric(39) not null check (tip >= 0),
  signed_at timestamptz not null default tidegate.clock(),
  sent_at timestamptz,
  answer text,
  primary key (wallet, nonce, n),
  foreign key (wallet, nonce) references evm.tx
);

-- Signed bytes do not compress.
alter table evm.attempt alter raw set storage external;
