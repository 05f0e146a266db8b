-- pause: Stops, or with paused => false resumes, claims from one queue or all; returns the queues that changed.
--
-- Returns the queues whose state changed; null for `queue` means all of them. `actor` is recorded in the history.
create or replace function tidegate.pause(queue text default null, paused boolean default true, actor text default null)
  returns setof text language plpgsql security definer as $$
declare
  v_actor_before text := tidegate_internal.set_actor(pause.actor);
begin
  perform tidegate_internal.require_queue(pause.queue) where pause.queue is not null;
  return query
    with chosen as materialized (
      -- In the order of their names, as all locks on rows of configuration are taken.
      select q.name
      from tidegate.queue as q
      where (pause.queue is null or q.name = pause.queue) and q.paused <> pause.paused
      order by q.name
      for no key update
    ), changed as (
      update tidegate.queue as q set paused = pause.paused from chosen as c where q.name = c.name returning q.name
    )
    select c.name from changed as c order by c.name;
  perform set_config('tidegate.actor', v_actor_before, true);
end;
$$;
select tidegate_internal.allow('pause', '{admin}');
