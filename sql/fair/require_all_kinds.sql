-- require_all_kinds: Raises TG007 for a claim of a fair queue that does not take all of its kinds.
--
-- A claim that left messages behind would have to search for others under the lock `turns`, without an end.
create or replace function tidegate_internal.require_all_kinds(p_queue text, p_kinds text[])
  returns void language plpgsql as $$
declare
  v_missing constant text[] := array(
    select k.name
    from tidegate.queue as q
    cross join unnest(q.kinds) as k(name)
    where q.name = p_queue and k.name <> all(p_kinds)
    order by k.name
  );
begin
  if v_missing <> '{}' then
    raise exception using errcode = 'TG007',
      message = format('queue "%s" is fair: a claim must take all its kinds (missing: %s)', p_queue,
        array_to_string(v_missing, ', ')),
      hint = 'start workers for these kinds before they are added to the queue, or give them a queue of their own';
  end if;
end;
$$;
