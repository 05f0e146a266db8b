-- tidegate.deadline_fates: of live requests, those that a deadline has overtaken, and those that have none
--
-- `fate` is unready, overdue or unanswered, by the deadline that has passed, or undated.
create or replace function tidegate.deadline_fates(p_ids uuid[], p_now timestamptz)
  returns table (id uuid, queue text, msg_id bigint, fate text)
  language sql
  stable
as $$
  select d.id, d.queue, d.msg_id, d.fate
  from (
    select
      r.id, r.queue, r.msg_id,
      case
        when r.req_status = 'queued' and r.readiness_deadline_at <= p_now then 'unready'
        when r.req_status in ('queued', 'processing', 'tx_in_flight') and r.deadline_at <= p_now then 'overdue'
        when r.req_status = 'receipt_received' and a.due_at <= p_now then 'unanswered'
        when r.req_status = 'queued' and r.readiness_deadline_at is null then 'undated'
        when r.req_status = 'receipt_received' and a.due_at is null then 'undated'
      end as fate
    from tidegate.request as r
    left join tidegate.awaiting_response as a on a.request_id = r.id and r.req_status = 'receipt_received'
    where r.id = any(p_ids)
  ) as d
  where d.fate is not null
  order by d.id;
$$;
