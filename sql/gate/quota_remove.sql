-- quota_remove: Removes the quota of a kind or submitter; returns whether there was one.
--
-- `name` is such as 'kind direct' or 'submitter ann'. `actor` is recorded in the history. Raises TG007 for a queue,
-- whose gate stays as long as it does.
create or replace function tidegate.quota_remove(name text, actor text default null)
  returns boolean language plpgsql security definer as $$
#variable_conflict use_column
declare
  v_actor_before text := tidegate_internal.set_actor(quota_remove.actor);
  v_found        boolean;
begin
  if exists (select from tidegate.gate as g where g.queue = quota_remove.name) then
    raise exception using
      errcode = 'TG007', message = format('"%s" is the gate of a queue, and stays as long as the queue',
        quota_remove.name),
      hint = 'hold it open: select tidegate.gate_force(queue, ''accepting'')';
  end if;
  delete from tidegate.gate as g where g.name = quota_remove.name and g.queue is null;
  v_found := found;
  perform set_config('tidegate.actor', v_actor_before, true);
  return v_found;
end;
$$;
select tidegate_internal.allow('quota_remove', '{admin}');
