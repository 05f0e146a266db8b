-- set_actor: Sets the actor that the history of the configuration records; returns the actor before.
--
-- The history records it next to the database user, to the end of the transaction or until the caller sets it back.
-- Null leaves it as it is: a session may have set `tidegate.actor` by itself.
create or replace function tidegate_internal.set_actor(p_actor text)
  returns text language plpgsql as $$
declare
  v_before text := coalesce(current_setting('tidegate.actor', true), '');
begin
  if p_actor is not null then
    perform set_config('tidegate.actor', p_actor, true);
  end if;
  return v_before;
end;
$$;
