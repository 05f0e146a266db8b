-- pause: Stops, or with paused => false resumes, claims from one queue, of one kind or from all queues; returns the
-- queues, or the kind, that changed.
--
-- Without `queue` and `kind` all queues. Requests of a paused kind stay in their places, and claims pass them over; a
-- kind stays paused when its queue is paused and resumed. Raises TG007 for a queue and a kind at once. `actor` is
-- recorded in the history.
create or replace function tidegate.pause(
  queue text default null, paused boolean default true, actor text default null, kind text default null
)
  returns setof text language plpgsql security definer as $$
declare
  v_actor_before text := tidegate_internal.set_actor(pause.actor);
begin
  perform tidegate_internal.require_queue(pause.queue) where pause.queue is not null;
  perform tidegate_internal.require_kind(pause.kind) where pause.kind is not null;
  if pause.queue is not null and pause.kind is not null then
    raise exception using errcode = 'TG007', message = 'pause takes a queue or a kind, not both',
      hint = 'a paused kind is passed over in every queue';
  end if;
  return query
    with chosen as materialized (
      -- In the order of their names, as all locks on rows of configuration are taken.
      select q.name
      from tidegate.queue as q
      where pause.kind is null and (pause.queue is null or q.name = pause.queue) and q.paused <> pause.paused
      order by q.name
      for no key update
    ), changed as (
      update tidegate.queue as q set paused = pause.paused from chosen as c where q.name = c.name returning q.name
    ), changed_kind as (
      update tidegate.kind as k set paused = pause.paused
      where k.name = pause.kind and k.paused <> pause.paused
      returning k.name
    )
    select c.name from (select c.name from changed as c union all select k.name from changed_kind as k) as c
    order by c.name;
  perform set_config('tidegate.actor', v_actor_before, true);
end;
$$;
select tidegate_internal.allow('pause', '{admin}');
