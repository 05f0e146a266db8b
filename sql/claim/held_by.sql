-- held_by: How many requests each holder holds; a holder without any is not there.
create or replace function tidegate.held_by()
  returns table (holder text, held bigint) language sql stable security definer as $$
  select l.worker, count(*) from tidegate.leased_request as l where l.in_force group by l.worker;
$$;
select tidegate_internal.allow('held_by', '{reader,api,worker,admin}');
