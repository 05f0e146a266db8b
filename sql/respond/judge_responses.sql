-- judge_responses: What becomes of each of several responses, by the state of their requests, whose rows are locked.
--
-- The outcomes: `unsent` (no request has its reference), `unknown`, `misfit` (with the refusal), `early`, `answer` (it
-- answers its request), `stored` (a share), `last` (the share that answers it), `duplicate` (a share that is there),
-- and `singly`: what `respond` has to find out, because the request has ended, or repeats one that has and gets a
-- response, too, or because another of the responses answers it.
create or replace function tidegate_internal.judge_responses(
  p_ids uuid[], p_parts text[], p_accepts boolean[], p_count integer
)
  returns table (place bigint, outcome text, refusal text) language plpgsql stable as $$
begin
  return query
  select
    b.place,
    case
      when b.id is null then 'unsent'
      when b.req_status is null then 'unknown'
      when b.refusal is not null then 'misfit'
      when b.is_of_an_ended then 'singly'
      when b.req_status <> 'receipt_received' then 'early'
      when b.is_mixed then 'singly'
      when b.part is null then case b.nth when 1 then 'answer' else 'singly' end
      when b.shares_before >= b.response_threshold then 'singly'
      when not b.is_new then 'duplicate'
      when b.shares_before + 1 = b.response_threshold then 'last'
      else 'stored'
    end,
    b.refusal
  from (
    select
      n.*,
      n.shares_stored + coalesce(sum(n.is_new::integer) over (
        partition by n.id order by n.place rows between unbounded preceding and 1 preceding
      ), 0) as shares_before
    from (
      select
        a.place, a.id, a.part, r.req_status, r.response_threshold,
        tidegate_internal.response_refusal(r.flow, r.response_threshold, a.part, a.accept) as refusal,
        bool_or(r.req_status in ('completed', 'timed_out', 'failure')) over (
          partition by coalesce(r.send_id, a.id)
        ) as is_of_an_ended,
        row_number() over (partition by a.id order by a.place) as nth,
        count(a.part) over (partition by a.id) between 1 and count(*) over (partition by a.id) - 1 as is_mixed,
        a.part is not null and p.part is null
          and row_number() over (partition by a.id, a.part order by a.place) = 1 as is_new,
        case when a.part is null then 0 else (
          select count(*) from tidegate.response_part as s where s.request_id = a.id
        ) end as shares_stored
      from unnest(array_fill(0, array[p_count]), p_ids, p_parts, p_accepts) with ordinality
        as a(nothing, id, part, accept, place)
      left join tidegate.request as r on r.id = a.id
      left join tidegate.response_part as p on p.request_id = a.id and p.part = a.part
    ) as n
  ) as b;
end;
$$;
select tidegate_internal.plan_along_indexes('judge_responses');
