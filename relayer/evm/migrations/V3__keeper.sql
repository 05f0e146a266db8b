-- What the keeper of each wallet knows.

-- table keeper: The progress of a wallet's keeper; apart from the wallet, whose row every allocation reads.
--   epoch: That of the singleton that keeps the wallet: an older one writes nothing.
--   settled_nonce: All transactions of lower nonces are final, lost or void.
create table evm.keeper (
  wallet smallint primary key references evm.wallet,
  epoch bigint not null,
  settled_nonce bigint not null
);
