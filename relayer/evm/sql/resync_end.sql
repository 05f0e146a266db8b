-- resync_end: Takes a wallet into use again, in this PostgreSQL cluster and on its timeline; returns whether it was
-- off.
create or replace function evm.resync_end(p_wallet smallint)
  returns boolean language sql volatile
  as $$
    with ended as (
      update evm.wallet as w
      set state = 'active', off_cause = null, system_identifier = c.system_identifier, timeline_id = c.timeline_id
      from evm.cluster() as c
      where w.id = p_wallet and w.state = 'off'
      returning 1
    )
    select exists (select from ended)
  $$;
