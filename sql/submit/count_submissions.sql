-- count_submissions: For API nodes: notes the submissions and replays of each kind that a node has let in; appends
-- only.
--
-- One entry a kind; written by each node every few seconds, for what it has let in since. Only appends, so that a
-- duplicate costs no row version. A kind that is gone is passed over.
create or replace function tidegate.count_submissions(kinds text[], submitted integer[], replayed integer[])
  returns void
  language sql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
  insert into tidegate.submission_sample (kind, submitted, replayed)
  select n.kind, n.submitted, n.replayed
  from unnest(count_submissions.kinds, count_submissions.submitted, count_submissions.replayed)
    as n(kind, submitted, replayed)
  join tidegate.kind as k on k.name = n.kind
$$;
select tidegate_internal.allow('count_submissions', '{api,admin}');
