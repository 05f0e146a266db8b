-- establish: Notes whether requests that have ended were executed, by a source that knows; returns those of which it
-- was not known, or known otherwise or by another source.
--
-- Only requests with a row in `outcome`: the others' sends certainly had no effect, or were answered; a response says
-- otherwise of the former. Under the locks of their rows. Whatever is known beats what is unknown, what the downstream
-- says beats an operator's word, and a yes of the downstream beats its no, unless it has taken its receipt back. What
-- loses stays in `contradicted_by`.
create or replace function tidegate_internal.establish(
  p_ids uuid[], p_executed text, p_source text, p_note text default null, p_actor text default null
)
  returns setof uuid language plpgsql as $$
begin
  insert into tidegate.outcome (request_id, kind, executed, source)
  select r.id, r.kind, 'unknown', 'attempts'
  from tidegate.request as r
  where r.id = any(p_ids) and r.req_status in ('failure', 'timed_out') and p_source = 'response'
  on conflict do nothing;
  return query
    with judged as (
      select
        o.request_id,
        o.executed = 'unknown' or p_source = 'receipt_taken_back' or o.source = 'operator'
          or (p_executed = 'yes' and o.executed = 'no' and p_source <> 'operator' and o.source <> 'receipt_taken_back')
          as wins,
        o.executed not in ('unknown', p_executed) as contradicts,
        (o.executed, o.source) <> (p_executed, p_source) as differs,
        jsonb_strip_nulls(jsonb_build_object('executed', o.executed, 'source', o.source, 'at', o.at, 'note', o.note,
          'actor', o.actor)) as before
      from tidegate.outcome as o
      where o.request_id = any(p_ids)
    ), established as (
      update tidegate.outcome as o
      set
        executed = case when j.wins then p_executed else o.executed end,
        source = case when j.wins then p_source else o.source end,
        at = case when j.wins and j.differs then tidegate.clock() else o.at end,
        note = case when j.wins then p_note else o.note end,
        actor = case when j.wins then p_actor else o.actor end,
        contradicted_by = case
          when not j.contradicts then o.contradicted_by
          when j.wins then j.before
          else jsonb_strip_nulls(jsonb_build_object('executed', p_executed, 'source', p_source, 'at', tidegate.clock(),
            'note', p_note, 'actor', p_actor))
        end
      from judged as j
      where o.request_id = j.request_id and (j.wins or j.contradicts)
      returning o.request_id, j.wins and j.differs as changed
    )
    select e.request_id from established as e where e.changed;
end;
$$;
select tidegate_internal.plan_along_indexes('establish');
