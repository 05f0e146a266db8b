-- submit_refused: answers a submission that the gates have no room for in whole
--
-- `p_known`, `p_fresh` and `p_taken` are what `sort_out` found. Those taken are submitted, and refused if others
-- took their room meanwhile. Afterwards gates that are full close. Of several submitters none has a cap.
create or replace function tidegate_internal.submit_refused(
  p_kind            tidegate.kind,
  p_payloads        jsonb[],
  p_keys            text[],
  p_submitters      text[],
  p_not_before      timestamptz,
  p_each            boolean,
  p_known           uuid[],
  p_fresh           bigint,
  p_taken           bigint[],
  p_key_patience_ms integer
)
  returns table (
    id uuid, outcome text, req_status tidegate.request_status, queue text, queue_position bigint,
    retry_after_seconds integer, eta_p50_ms bigint, eta_p90_ms bigint
  )
  language plpgsql
  -- A plan that is kept may have been made for empty tables: joined as written, along indexes, it serves full ones, too.
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_mergejoin = off
  set join_collapse_limit = 1
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_wait integer := tidegate_internal.gate_wait(
    p_kind, p_submitters[1], case when p_each then 1 else p_fresh end, coalesce(cardinality(p_taken), 0)
  );
begin
  v_wait := (
    select tidegate_internal.spread_seconds(v_wait, least(v_wait * (1 + t.jitter), greatest(v_wait, t.max_seconds)), random())
    from tidegate.setting as t
  );
  return query
    with let_in as materialized (
      select p_taken[i.number] as place, i.*
      from tidegate_internal.submit_requests(
        p_kind.name, array(select p_payloads[t.place] from unnest(p_taken) as t(place)),
        case when p_keys is not null then array(select p_keys[t.place] from unnest(p_taken) as t(place)) end,
        array(select p_submitters[t.place] from unnest(p_taken) as t(place)), 'enforce', p_not_before, false,
        p_key_patience_ms
      ) with ordinality as i(
        id, outcome, req_status, queue, queue_position, retry_after_seconds, eta_p50_ms, eta_p90_ms, number
      )
    )
    select
      coalesce(i.id, s.id),
      case when i.id is not null then i.outcome when s.id is not null then 'replayed' else 'refused' end,
      coalesce(i.req_status, r.req_status), coalesce(i.queue, r.queue), coalesce(i.queue_position, e.queue_position),
      coalesce(i.retry_after_seconds, e.retry_after_seconds, case when s.id is null then v_wait end),
      coalesce(i.eta_p50_ms, e.eta_p50_ms), coalesce(i.eta_p90_ms, e.eta_p90_ms)
    from unnest(p_known) with ordinality as s(id, place)
    left join tidegate.request as r on r.id = s.id
    left join lateral tidegate.request_outlook(s.id) as e on not p_each
    left join let_in as i on i.place = s.place
    order by s.place;
  perform tidegate_internal.look_at_gate(g.name, 'accepting')
  from (
    select g.name
    from tidegate.gate as g
    where g.queue = coalesce(p_kind.readiness_queue, p_kind.tx_queue) or g.kind = p_kind.name or g.submitter = p_submitters[1]
    order by g.name
  ) as g;
end;
$$;

comment on function tidegate_internal.submit_refused is 'Answers a submission that the gates have no room for in whole.';
