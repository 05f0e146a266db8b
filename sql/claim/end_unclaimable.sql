-- end_unclaimable: queued → timed_out, processing or tx_in_flight → failure, for requests that no worker may claim any
-- more.
--
-- Their outcome must stay unknown (`unknown`: sent at most once, and lost), their attempts are used up (`exhausted`),
-- their deadline has passed (`expired`), or their cancel was requested (`cancelled`). The caller has locked the rows
-- and taken their messages. Returns the requests that have ended: one that cannot be ended must not keep a queue's
-- claims from all others, and is left to the sweep of its deadline (see `try_each`).
create or replace function tidegate_internal.end_unclaimable(p_ids uuid[], p_fates text[])
  returns uuid[] language plpgsql as $$
begin
  if coalesce(cardinality(p_ids), 0) = 0 then
    return '{}';
  end if;
  return tidegate_internal.try_each(
    'expire_by_deadline', p_ids, 'select array(select e from tidegate_internal.end_by_fate($1, $2) as e)', p_fates
  );
end;
$$;
