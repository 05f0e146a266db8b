-- adopt: Makes this database one that sends: ends its quarantine and records which database it is; returns why it was
-- quarantined, null if it was not.
--
-- Only where the original sends no more, or this one sends to other receivers. Workers are woken. `actor` is recorded
-- in the history.
create or replace function tidegate.adopt(actor text default null)
  returns text language plpgsql security definer as $$
declare
  v_actor_before text := tidegate_internal.set_actor(adopt.actor);
  v_reason       text := (select s.because from tidegate.quarantine_state as s);
begin
  update tidegate.installation as i
  set
    (system_identifier, database_oid, table_oid) = (select n.* from tidegate_internal.installation_now() as n),
    quarantined_at = null, quarantined_because = null;
  perform tidegate.wake(q.name) from tidegate.queue as q;
  perform set_config('tidegate.actor', v_actor_before, true);
  return v_reason;
end;
$$;
select tidegate_internal.allow('adopt', '{admin}');
