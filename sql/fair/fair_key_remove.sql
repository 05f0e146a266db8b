-- fair_key_remove: Removes the settings of a key of a fair queue, which then has weight 1 and is not paused; returns
-- whether it had any.
--
-- `name` and `actor` are those of `fair_key_set`. Raises TG005 for an unknown queue, TG007 for a fifo queue.
create or replace function tidegate.fair_key_remove(queue text, name text, actor text default null)
  returns boolean language plpgsql security definer as $$
#variable_conflict use_column
declare
  v_actor_before constant text := tidegate_internal.set_actor(fair_key_remove.actor);
  v_found        boolean;
begin
  perform tidegate_internal.require_fair_queue(fair_key_remove.queue);
  perform pg_advisory_xact_lock(tidegate.queue_lock_key(fair_key_remove.queue, 'turns'));
  delete from tidegate.fair_key as k
  where k.queue = fair_key_remove.queue and k.name = coalesce(fair_key_remove.name, '');
  v_found := found;
  perform set_config('tidegate.actor', v_actor_before, true);
  return v_found;
end;
$$;
select tidegate_internal.allow('fair_key_remove', '{admin}');
