-- deadline_fates: Of live requests, those that a deadline has overtaken, and those that have none.
--
-- `fate` is as `deadline_fate` says.
create or replace function tidegate_internal.deadline_fates(p_ids uuid[], p_now timestamptz)
  returns table (id uuid, queue text, msg_id bigint, fate text)
  language sql
  stable
  set search_path = pg_catalog, pg_temp
as $$
  select d.id, d.queue, d.msg_id, d.fate
  from (
    select
      r.id, r.queue, r.msg_id,
      tidegate_internal.deadline_fate(r.req_status, r.readiness_deadline_at, r.deadline_at, a.due_at, p_now) as fate
    from tidegate.request as r
    left join tidegate.awaiting_response as a on a.request_id = r.id and r.req_status = 'receipt_received'
    where r.id = any(p_ids)
  ) as d
  where d.fate is not null
  order by d.id;
$$;
