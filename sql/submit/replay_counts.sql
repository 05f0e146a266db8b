-- replay_counts: How many submissions of each kind were answered with an earlier request, by whatever function.
--
-- Counted by a sequence for each kind, which begins at 0 again after a crash of the server, and after a promotion as
-- soon as `fold_counts` has run if it could not be read. A standby cannot read it: there are no rows then. Submissions
-- of transactions that were rolled back count, too.
create or replace function tidegate.replay_counts()
  returns table (kind text, replays bigint) language plpgsql security definer as $$
begin
  return query
    select k.name, coalesce(tidegate_internal.replays_counted(k.name), 0)
    from tidegate.kind as k
    where not pg_is_in_recovery();
end;
$$;
select tidegate_internal.allow('replay_counts', '{reader,api,worker,admin}');
