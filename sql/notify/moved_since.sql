-- moved_since: The requests whose transition_no differs from the one that the caller has; nulls for one that is gone.
--
-- `known` holds the `transition_no` that the caller has of each, or null: then its row is returned in any case. No row:
-- nothing has moved. One call serves all waiters of a node.
create or replace function tidegate.moved_since(ids uuid[], known integer[])
  returns table (id uuid, transition_no integer, req_status tidegate.request_status)
  language plpgsql stable security definer as $$
begin
  return query
    select w.id, r.transition_no, r.req_status
    from unnest(moved_since.ids, moved_since.known) as w(id, transition_no)
    left join tidegate.request as r on r.id = w.id
    where w.transition_no is null or r.transition_no is distinct from w.transition_no;
end;
$$;
select tidegate_internal.allow('moved_since', '{api,worker,admin}');
select tidegate_internal.plan_along_indexes('moved_since', 'hashjoin');
