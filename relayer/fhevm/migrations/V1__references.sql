-- Which request a response of the gateway belongs to.

-- table reference: The id that a contract gave to a request of ours, in one block.
--   contract: The contract that counts the id.
--   id: A uint256, 32 bytes.
--   block_hash: The block of the request's transaction: another block may give it another id.
--   watched: False while only a receipt told of it, whose endpoint may be on a dropped fork.
create table fhevm.reference (
  contract bytea not null check (length(contract) = 20),
  id bytea not null check (length(id) = 32),
  request_id uuid not null,
  block_number bigint not null,
  block_hash bytea not null check (length(block_hash) = 32),
  watched boolean not null,
  primary key (contract, id)
);

create index reference_request on fhevm.reference (request_id);

create index reference_block on fhevm.reference (block_number);
