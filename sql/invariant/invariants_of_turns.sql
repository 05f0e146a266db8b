-- invariants_of_turns: The invariants of fair queues.
--
-- As `invariants`. Those of keys hold in every committed state.
create or replace function tidegate_internal.invariants_of_turns()
  returns table (name text, rule text, subject text, query text) language sql immutable as $$
  values
    ('turn_twice', 'a key of a fair queue has one turn that is not idle, at most', null, $q$
select t.queue || ' ' || t.key as id
from {turn} as t
where t.idle_at is null
group by t.queue, t.key
having count(*) > 1
     $q$),
    ('turn_behind', 'no turn that is ready lies before the marks from which claims read for longer than a rescan', null,
     $q$
select t.queue || ' ' || t.key as id
from {turn} as t
where t.idle_at is null and exists (
  select from tidegate.maintenance as d
  where d.duty = 'fold_turns' and d.ran_at < statement_timestamp() - interval '1 minute'
) and (t.tag, t.no) < (
  pg_sequence_last_value(to_regclass('tidegate.' || quote_ident('ready_tag_' || t.queue))),
  pg_sequence_last_value(to_regclass('tidegate.' || quote_ident('ready_no_' || t.queue)))
)
     $q$),
    ('turn_cost', 'a turn costs what the weight of its key says, and is paused as its key is', null, $q$
select t.queue || ' ' || t.key as id
from {turn} as t
left join tidegate.fair_key as s on s.queue = t.queue and s.key = t.key
where t.cost <> 720720 / coalesce(s.weight, 1) or t.idle_at is null and s.paused
  or t.tag >= 2305843009213693952 and s.paused is not true
     $q$),
    ('turn_missing', 'the key of a message has a turn, or a row in the journal', null, $q$
select m.queue || ' ' || m.msg_id as id
from {keyed} as m
where not exists (
  select from {turn} as t
  where t.queue = m.queue and t.key = m.key and (t.idle_at is null or t.tag >= 2305843009213693952)
) and not exists (
  select from {arrival} as a where a.queue = m.queue and a.key = m.key and a.first is not null
)
     $q$),
    ('turn_hides_message', 'no message lies below the head of its turn, unless the journal tells of it', null, $q$
select m.queue || ' ' || m.msg_id as id
from {turn} as t
join {keyed} as m on m.queue = t.queue and m.key = t.key and m.msg_id < t.head
where t.idle_at is null and not exists (
  select from {arrival} as a where a.queue = m.queue and a.key = m.key and a.first <= m.msg_id
)
     $q$),
    ('turn_count', 'what turns and journal count of a key is the number of its messages', null, $q$
select concat_ws(' ', c.queue, c.key) as id
from (
  select m.queue, m.key, 1 as n from {keyed} as m
  union all select t.queue, t.key, -t.waiting from {turn} as t
  union all select a.queue, a.key, -a.n from {arrival} as a
) as c
group by c.queue, c.key
having sum(c.n) <> 0
     $q$),
    ('arrival_old', 'maintenance folds the rows of the journal within seconds', null, $q$
select distinct a.queue as id
from {arrival} as a
where a.at < statement_timestamp() - interval '10 seconds' and exists (
  select from tidegate.maintenance as d
  where d.duty = 'fold_turns' and d.ran_at > statement_timestamp() - interval '5 seconds'
)
     $q$)
$$;
