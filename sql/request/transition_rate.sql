-- transition_rate: Transitions by minute over the last hour, by kind and the status that they led to, the latest first.
--
-- Counted by `fold_counts`, every two seconds: the latest minute is not over. A request that is submitted enters its
-- first status. A correction by `recover` counts like transitions. No row: there was none.
--
--   kind: The kind.
--   req_status: The status that they led to.
--   minute: The minute.
--   transitions: How many there were in it.
--   per_minute_5m: Their mean over this minute and the four before it.
create or replace view tidegate.transition_rate as
select r.kind, r.req_status, r.minute, r.transitions, r.per_minute_5m
from (
  select
    m.kind, m.req_status, m.minute, m.transitions,
    round(sum(m.transitions) over (
      partition by m.kind, m.req_status order by m.minute range between interval '4 minutes' preceding and current row
    ) / 5, 1) as per_minute_5m
  from tidegate.transition_minute as m
) as r
where r.minute > tidegate.clock() - interval '1 hour'
order by r.minute desc, r.kind, r.req_status;
