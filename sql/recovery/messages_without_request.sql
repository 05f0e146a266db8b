-- messages_without_request: Which of these messages stand for no live request of their queue's stage.
create or replace function tidegate_internal.messages_without_request(
  p_queue tidegate.queue, p_msg_ids bigint[], p_ids uuid[]
)
  returns bigint[]
  language sql
  stable
  set search_path = pg_catalog, pg_temp
as $$
  select array(
    select m.msg_id
    from unnest(p_msg_ids, p_ids) as m(msg_id, id)
    left join tidegate.request as r on r.id = m.id and r.queue = p_queue.name and r.msg_id = m.msg_id
    where r.id is null or r.lease is not null
      or case p_queue.stage
        when 'readiness' then r.req_status <> 'queued'
        else r.req_status not in ('processing', 'tx_in_flight')
      end
    order by m.msg_id
  );
$$;
