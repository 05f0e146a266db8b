-- resolve_requests: Establishes whether requests that have ended were executed, and says so in their errors and to
-- their callbacks; returns those of which it was not known, or known otherwise.
--
-- Locks the rows first, in the order of their ids: of two sources at once, the later one sees what the other has noted.
create or replace function tidegate_internal.resolve_requests(
  p_ids uuid[], p_executed text, p_source text, p_note text default null, p_actor text default null
)
  returns setof uuid language plpgsql as $$
declare
  v_changed uuid[];
begin
  perform from (select 1 from tidegate.request as r where r.id = any(p_ids) order by r.id for update) as locked;
  v_changed := array(select tidegate_internal.establish(p_ids, p_executed, p_source, p_note, p_actor));
  perform tidegate_internal.say_executed(v_changed, p_executed, p_source);
  perform tidegate_internal.webhook_resolved(v_changed);
  return query select unnest(v_changed);
end;
$$;
select tidegate_internal.plan_along_indexes('resolve_requests');
