-- count_submissions: Records how many submissions and replays of each kind an API node has accepted since its last
-- call; for nodes, appends only.
--
-- One entry per kind; each node calls it every few seconds. It only appends, so that a duplicate costs no row version.
-- A kind that does not exist is skipped.
create or replace function tidegate.count_submissions(kinds text[], submitted integer[], replayed integer[])
  returns void language sql security definer as $$
  insert into tidegate.submission_sample (kind, submitted, replayed)
  select n.kind, n.submitted, n.replayed
  from unnest(count_submissions.kinds, count_submissions.submitted, count_submissions.replayed)
    as n(kind, submitted, replayed)
  join tidegate.kind as k on k.name = n.kind
$$;
select tidegate_internal.allow('count_submissions', '{api,admin}');
