-- quarantine: Stops everything that leaves a database: claims, searches for receipts and webhooks, until `adopt`;
-- returns whether it was not quarantined before.
--
-- For a copy that shall not send, such as a dump restored into staging. Submissions, polls and responses go on. What
-- is under way at this moment is not cut off. `actor` is recorded in the history.
create or replace function tidegate.quarantine(reason text default null, actor text default null)
  returns boolean language plpgsql security definer as $$
declare
  v_actor_before text := tidegate_internal.set_actor(quarantine.actor);
  v_changed      boolean;
begin
  update tidegate.installation as i
  set quarantined_at = tidegate.clock(), quarantined_because = coalesce(quarantine.reason, 'an operator said so')
  where i.quarantined_at is null;
  v_changed := found;
  perform set_config('tidegate.actor', v_actor_before, true);
  return v_changed;
end;
$$;
select tidegate_internal.allow('quarantine', '{admin}');
