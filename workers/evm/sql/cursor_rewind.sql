-- cursor_rewind: Sets a watcher's cursor back to a block that it has read up to, and forgets the later ones. Returns
-- false if the cursor is elsewhere by now, or a later epoch has moved it.
create or replace function evm.cursor_rewind(
  p_name text, p_epoch bigint, p_from bigint, p_from_hash bytea, p_to bigint
)
  returns boolean language sql volatile as $$
    with rewound as (
      update evm.cursor as c
      set number = b.number, hash = b.hash, epoch = p_epoch, moved_at = tidegate.clock()
      from evm.block as b
      where c.name = p_name and c.number = p_from and c.hash = p_from_hash and c.epoch <= p_epoch
        and b.cursor_name = p_name and b.number = p_to
      returning c.name
    ), forgotten as (
      delete from evm.block as b using rewound as r where b.cursor_name = r.name and b.number > p_to
    )
    select exists (select from rewound)
  $$;
