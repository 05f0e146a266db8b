-- each_queue: A function's body with its branch for queue QUEUE repeated for each of the queues named.
--
-- A statement on a queue's table names the table, because PostgreSQL keeps a plan only for a statement without
-- `execute`. So a function has one branch a queue. Its file has the branch of QUEUE, a name that no queue has, between
-- the markers `each queue` and `end of each queue`; its copies stand before it, because PL/pgSQL tries branch after
-- branch. Copies that are there already are replaced. The first marker may be `each fifo queue` or `each fair queue`: a
-- function that has it is given those queues only (see `queue_functions`).
create or replace function tidegate_internal.each_queue(p_body text, p_queues text[])
  returns text language sql immutable as $$
  select string_agg(
    case p.number
      when 1 then p.part
      else substring(s.branch from '^\s+') || coalesce(s.copies, '') || '-- queue QUEUE' || s.branch
        || '-- end of each queue' || split_part(p.part, '-- end of each queue', 2)
    end,
    m.marker order by p.number
  )
  from (
    select coalesce(substring(p_body from '-- each (?:fifo |fair )?queue'), '-- each queue') as marker
  ) as m
  cross join unnest(string_to_array(p_body, m.marker)) with ordinality as p(part, number)
  cross join lateral (
    select b.branch, (
      select string_agg('-- queue ' || q.name || replace(b.branch, 'QUEUE', q.name), '' order by q.number)
      from unnest(p_queues) with ordinality as q(name, number)
    ) as copies
    from (
      select regexp_replace(split_part(p.part, '-- end of each queue', 1), '.*-- queue QUEUE', '') as branch
      offset 0 -- computed once, not for each queue
    ) as b
  ) as s;
$$;
