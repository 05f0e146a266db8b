-- respond_many: What `respond` does, for up to 1000 responses at once; each has its own outcome, in their order.
--
-- The other arrays have an element for each response; null: none has such a thing. Besides the outcomes of `respond`
-- there are two, which store nothing:
--   unknown     no request has this id      misfit      it does not fit the flow of its request, as `refusal` says
-- Responses for the same request go in their order. Those that answer a request that awaits them, early ones and shares
-- take a statement of each sort; any other goes through `respond`. Locks the references, then the requests and what
-- repeats them, in the order of their ids. With `lock_patience_ms` it waits no longer for a lock (55P03, nothing is
-- stored). Raises TG007 for arrays that do not fit each other, and for a response that names no request.
create or replace function tidegate.respond_many(
  responses jsonb[], ids uuid[] default null, refs text[] default null, parts text[] default null,
  accepts boolean[] default null, lock_patience_ms integer default null
)
  returns table (request_id uuid, req_status tidegate.request_status, outcome text, refusal text)
  language plpgsql security definer as $$
declare
  v_count    constant integer := coalesce(cardinality(responses), 0);
  v_ended    constant tidegate.request_status[] := '{completed,timed_out,failure}';
  v_timeout  constant text := current_setting('lock_timeout');
  v_ids      uuid[] := ids;
  v_outcomes text[];
  v_refusals text[];
  v_single   record;
  v_done     record;
begin
  if v_count not between 1 and 1000 or coalesce(cardinality(ids), v_count) <> v_count
    or coalesce(cardinality(refs), v_count) <> v_count or coalesce(cardinality(parts), v_count) <> v_count
    or coalesce(cardinality(accepts), v_count) <> v_count then
    raise exception using errcode = 'TG007',
      message = format('there are %s responses: 1 to 1000, and one id, reference, part and verdict for each', v_count);
  end if;
  if exists (
    select from unnest(responses, ids, refs) as a(response, id, reference)
    where a.response is null or (a.id is null and a.reference is null)
  ) then
    raise exception using errcode = 'TG007',
      message = 'a response is JSON, and names its request: by id or by reference';
  end if;

  perform set_config('lock_timeout', lock_patience_ms::text, true) where lock_patience_ms is not null;
  if refs is not null then
    perform tidegate_internal.lock_names('reference', array(
      select a.reference from unnest(responses, ids, refs) as a(response, id, reference) where a.id is null));
    v_ids := array(
      select coalesce(a.id, f.request_id)
      from unnest(responses, ids, refs) with ordinality as a(response, id, reference, place)
      left join tidegate.request_reference as f on f.reference = a.reference and a.id is null
      order by a.place
    );
  end if;
  perform from (
    select 1
    from tidegate.request as r
    where r.id = any(v_ids || array(
      select o.id
      from tidegate.request as e
      join tidegate.request as o on o.send_id = coalesce(e.send_id, e.id) and o.req_status <> all(v_ended)
      where e.id = any(v_ids) and e.req_status = any(v_ended)
    ))
    order by r.id
    for update
  ) as locked;

  select array_agg(s.outcome order by s.place), array_agg(s.refusal order by s.place) into v_outcomes, v_refusals
  from tidegate_internal.judge_responses(v_ids, parts, accepts, v_count) as s;

  if v_outcomes && array['early', 'unsent'] then
    insert into tidegate.response_inbox (request_id, reference, part, accept, response)
    select a.id, a.reference, a.part, a.accept, a.response
    from unnest(responses, v_ids, refs, parts, accepts, v_outcomes) with ordinality
      as a(response, id, reference, part, accept, outcome, place)
    where a.outcome in ('early', 'unsent')
    order by a.place;
  end if;
  if v_outcomes && array['stored', 'last'] then
    insert into tidegate.response_part (request_id, part, response)
    select a.id, a.part, a.response
    from unnest(responses, v_ids, parts, v_outcomes) as a(response, id, part, outcome)
    where a.outcome in ('stored', 'last');
  end if;
  if v_outcomes && array['answer', 'last'] then
    perform tidegate_internal.answer_requests(array_agg(a.id), array_agg(a.cause), array_agg(a.response))
    from (
      select a.id, tidegate_internal.answer_cause(a.part, a.accept) as cause,
        case a.outcome when 'last' then tidegate_internal.shares(a.id) else a.response end as response
      from unnest(responses, v_ids, parts, accepts, v_outcomes) as a(response, id, part, accept, outcome)
      where a.outcome in ('answer', 'last')
    ) as a;
  end if;
  for v_single in
    select a.*
    from unnest(responses, v_ids, refs, parts, accepts, v_outcomes) with ordinality
      as a(response, id, reference, part, accept, outcome, place)
    where a.outcome = 'singly'
    order by a.place
  loop
    select f.outcome, f.request_id into v_done
    from tidegate.respond(v_single.response, v_single.id, v_single.reference, v_single.part, v_single.accept) as f;
    v_outcomes[v_single.place] := v_done.outcome;
    v_ids[v_single.place] := v_done.request_id;
  end loop;

  perform set_config('lock_timeout', v_timeout, true) where lock_patience_ms is not null;
  return query
  select a.id, r.req_status,
    case
      when a.outcome = 'unsent' then 'early'
      when a.outcome = 'answer' and a.accept is false then 'rejected'
      when a.outcome in ('answer', 'last') then 'completed'
      else a.outcome
    end,
    a.refusal
  from unnest(v_outcomes, v_ids, v_refusals, accepts) with ordinality as a(outcome, id, refusal, accept, place)
  left join tidegate.request as r on r.id = a.id
  order by a.place;
end;
$$;
select tidegate_internal.allow('respond_many', '{api,worker,admin}');
select tidegate_internal.plan_along_indexes('respond_many');
