-- queue_remove: Removes a queue that no kind uses and that holds no request.
--
-- Raises TG005 for an unknown queue, TG007 for one that holds requests or that kinds use, with their names. `actor` is
-- recorded in the history.
create or replace function tidegate.queue_remove(queue text, actor text default null)
  returns void language plpgsql security definer as $$
declare
  v_actor_before text := tidegate_internal.set_actor(queue_remove.actor);
  v_kinds        text;
begin
  perform tidegate_internal.require_queue(queue_remove.queue);
  select string_agg(k.name, ', ' order by k.name) into v_kinds
  from tidegate.kind as k
  where queue_remove.queue in (k.tx_queue, k.readiness_queue);
  if v_kinds is not null then
    raise exception using errcode = 'TG007',
      message = format('queue "%s" is used by %s', queue_remove.queue, v_kinds),
      hint = 'move the kind to another queue (`tidegate config set KIND.tx_queue QUEUE`), or remove it '
        '(`tidegate kind remove KIND --queues`)';
  end if;
  begin
    delete from tidegate.queue as q where q.name = queue_remove.queue;
  exception when sqlstate 'TG005' then
    raise exception using errcode = 'TG007', message = sqlerrm, hint = 'let it drain first';
  end;
  perform set_config('tidegate.actor', v_actor_before, true);
end;
$$;
select tidegate_internal.allow('queue_remove', '{admin}');
