-- quota_usage_remove: Makes a gate of a kind or submitter not count what is in no queue any more.
--
-- Looks at `p_batch` members after the given one, in order, and returns how many it looked at and which was the last.
-- They leave by themselves as their requests do; what is found here is left of gates that are gone, or was ended in a
-- transaction that saw no gate yet.
create or replace function tidegate_internal.quota_usage_remove(
  inout gate       text,
  inout request_id uuid,
  p_batch          integer,
  out looked_at    bigint
)
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_gates text[];
  v_ids   uuid[];
begin
  select array_agg(m.gate order by m.gate, m.request_id), array_agg(m.request_id order by m.gate, m.request_id)
  into v_gates, v_ids
  from (
    select a.gate, a.request_id
    from tidegate.quota_usage as a
    where (a.gate, a.request_id) > (quota_usage_remove.gate, quota_usage_remove.request_id)
    order by a.gate, a.request_id
    limit p_batch
  ) as m;
  looked_at := coalesce(cardinality(v_ids), 0);
  gate := v_gates[looked_at];
  request_id := v_ids[looked_at];

  with stale as materialized (
    select m.gate, m.request_id
    from unnest(v_gates, v_ids) as s(gate, id)
    join tidegate.quota_usage as m on m.gate = s.gate and m.request_id = s.id
    where not exists (
      select
      from tidegate.request as r
      join tidegate.gate as g on g.kind = r.kind or g.submitter = r.submitter
      where r.id = m.request_id and g.name = m.gate and r.req_status in ('queued', 'processing', 'tx_in_flight')
    )
    for update of m skip locked
  )
  delete from tidegate.quota_usage as m using stale as s where m.gate = s.gate and m.request_id = s.request_id;
end;
$$;
