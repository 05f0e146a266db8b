-- resolve_requests: Establishes whether requests that have ended were executed, and says so in their errors and to
-- their callbacks.
--
-- Locks the rows first, in the order of their ids: of two sources at once, the later one sees what the other has
-- recorded. `p_answers`: the caller keeps a late response of these requests next. Their resolutions show the first one,
-- so their callbacks are told even if it was known before that they were executed.
create or replace function tidegate_internal.resolve_requests(
  p_ids uuid[], p_executed text, p_source text, p_note text default null, p_actor text default null,
  p_answers boolean default false
)
  returns void language plpgsql as $$
declare
  v_changed uuid[];
begin
  perform from (select 1 from tidegate.request as r where r.id = any(p_ids) order by r.id for update) as locked;
  v_changed := array(select tidegate_internal.establish(p_ids, p_executed, p_source, p_note, p_actor));
  perform tidegate_internal.say_executed(v_changed, p_executed, p_source);
  if p_answers then
    v_changed := array(
      select i.id from unnest(v_changed) as i(id)
      union
      select o.request_id
      from tidegate.outcome as o
      where o.request_id = any(p_ids) and o.executed = 'yes' and not exists (
        select from tidegate.response_inbox as l where l.request_id = o.request_id and l.late and l.part is null
      )
    );
  end if;
  perform tidegate_internal.webhook_resolved(v_changed);
end;
$$;
select tidegate_internal.plan_along_indexes('resolve_requests');
