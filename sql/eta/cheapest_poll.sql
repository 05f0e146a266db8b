-- cheapest_poll: In how many seconds to poll for something that may take any of the given times: the least mean cost of
-- coming late and of polls that come too early.
--
-- `remaining_ms` are equally likely; a poll that comes too early costs as much as coming `poll_cost_ms` late. With
-- `jitter`, callers come up to that share earlier than the answer, which is the latest of them. Whole seconds from
-- `min_seconds` to `max_seconds`; null when there is nothing to choose from.
--
-- The mean of lateness and cost has its minimum near one of the times, so only those are tried; never one before all
-- of them, which would only cost a poll more. Times within one second leave nothing to try.
create or replace function tidegate.cheapest_poll(
  remaining_ms double precision[], poll_cost_ms double precision, jitter double precision, min_seconds integer,
  max_seconds integer
)
  returns integer language plpgsql immutable parallel safe as $$
declare
  v_first integer;
  v_last  integer;
begin
  select
    least(max_seconds, greatest(min_seconds, ceil(min(ms) / 1000))),
    least(max_seconds, greatest(min_seconds, ceil(max(ms) * (1 + jitter) / 1000)))
  into v_first, v_last
  from unnest(remaining_ms) as ms;
  if v_first = v_last and remaining_ms <> '{}' then
    return v_first;
  end if;
  return (
    with candidate as (
      select distinct least(max_seconds, greatest(min_seconds, ceil(ms * (1 + spread) / 1000)))::integer as seconds
      from unnest(remaining_ms) as ms, (values (0), (jitter / 2), (jitter)) as widened(spread)
    ), tried as (
      select
        c.seconds,
        (ceil(c.seconds / (1 + jitter)) + (c.seconds - ceil(c.seconds / (1 + jitter))) * share) * 1000 as at_ms
      from candidate as c, (values (1 / 6.0::float8), (1 / 2.0), (5 / 6.0)) as early(share)
      where c.seconds > 10 or share = 0.5
    ), weighed as (
      select p.seconds, p.at_ms, sum(p.answers) over up_to as before, sum(p.ms) over up_to as before_ms
      from (
        select t.seconds, t.at_ms, 0 as answers, 0::float8 as ms from tried as t
        union all
        select null, ms, 1, ms from unnest(remaining_ms) as ms
      ) as p
      window up_to as (order by p.at_ms range unbounded preceding)
    )
    select t.seconds
    from weighed as t
    where t.seconds is not null
    group by t.seconds
    order by avg(t.before * t.at_ms - t.before_ms + (cardinality(remaining_ms) - t.before) * poll_cost_ms), t.seconds
    limit 1
  );
end;
$$;
select tidegate_internal.allow('cheapest_poll', '{reader,api,worker,admin}');
