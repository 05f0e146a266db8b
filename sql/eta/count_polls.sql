-- count_polls: Adds a node's counts of requests whose end a poll returned, the polls of these, and the lateness of the
-- last poll.
--
-- One element per kind; each node calls it every few seconds with the counts since the last call.
create or replace function tidegate.count_polls(kinds text[], answered bigint[], polls bigint[], lateness_ms bigint[])
  returns void language plpgsql security definer as $$
begin
  insert into tidegate.poll_count as c (kind, answered, polls, lateness_ms)
  select n.kind, n.answered, n.polls, n.lateness_ms
  from unnest(count_polls.kinds, count_polls.answered, count_polls.polls, count_polls.lateness_ms)
    as n(kind, answered, polls, lateness_ms)
  order by n.kind
  on conflict (kind) do update
  set
    answered = c.answered + excluded.answered, polls = c.polls + excluded.polls,
    lateness_ms = c.lateness_ms + excluded.lateness_ms;
end;
$$;
select tidegate_internal.allow('count_polls', '{api,worker,admin}');
