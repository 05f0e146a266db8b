-- pause: Stops, or with paused => false resumes, claims from one queue or all; returns the queues that changed.
--
-- Returns the queues whose state changed; null for `queue` means all of them. `actor` is who asked, for the history.
create or replace function tidegate.pause(queue text default null, paused boolean default true, actor text default null)
  returns setof text
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
  set jit = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_actor_before text := tidegate_internal.set_actor(pause.actor);
  v_name         text;
begin
  if pause.queue is not null then
    perform tidegate_internal.require_queue(pause.queue);
  end if;
  for v_name in
    -- In the order of their names, as everybody locks the rows of configuration.
    select q.name from tidegate.queue as q
    where (pause.queue is null or q.name = pause.queue) and q.paused <> pause.paused
    order by q.name
    for no key update
  loop
    update tidegate.queue as q set paused = pause.paused where q.name = v_name;
    return next v_name;
  end loop;
  perform set_config('tidegate.actor', v_actor_before, true);
end;
$$;
select tidegate_internal.allow('pause', '{admin}');
