-- quota_usage_add: Adds the requests in a queue that the gates of their kinds and submitters do not count yet.
--
-- Reads all requests under a lease and `p_batch` messages numbered above `p_after`, and returns where to go on, null at
-- the end; `p_gate` narrows it to one gate. A request that it adds cannot leave the queue before this commits, so its
-- end finds it counted. Waits for no lock: a request that another transaction is changing is found in the next round.
create or replace function tidegate_internal.quota_usage_add(
  p_queue text, p_after bigint, p_batch integer, p_gate text default null
)
  returns bigint language plpgsql as $$
declare
  v_msg_ids bigint[];
  v_ids     uuid[];
begin
  if to_regclass(tidegate_internal.queue_table(p_queue)) is null then
    return null;
  end if;
  execute format(
    $sql$
      select
        array_agg(m.msg_id order by m.msg_id),
        array_agg(tidegate.message_request_id(m.message)) || array(
          select i.id from tidegate.claim as c cross join unnest(c.ids) as i(id) where c.queue = $3
        )
      from (select msg_id, message from %s where msg_id > $1 order by msg_id limit $2) as m
    $sql$, tidegate_internal.queue_table(p_queue)
  ) into v_msg_ids, v_ids using p_after, p_batch, p_queue;

  with missing as materialized (
    select g.name, r.id
    from tidegate.request as r
    join tidegate.gate as g on g.kind = r.kind or g.submitter = r.submitter
    where r.id = any(v_ids) and r.queue = p_queue and r.req_status in ('queued', 'processing', 'tx_in_flight')
      and g.name = coalesce(p_gate, g.name)
      and not exists (select from tidegate.quota_usage as u where u.gate = g.name and u.request_id = r.id)
    for share of r skip locked
  )
  insert into tidegate.quota_usage (gate, request_id) select m.name, m.id from missing as m on conflict do nothing;
  return case when cardinality(v_msg_ids) = p_batch then v_msg_ids[p_batch] end;
end;
$$;
