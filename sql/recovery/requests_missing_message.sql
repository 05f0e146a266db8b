-- requests_missing_message: Live requests that seem to have lost their message, lease or quota count, for `recover`.
--
-- `recover` locks them and checks again. One call examines `p_window` live requests with an id greater than `p_after`,
-- in id order, and stops at `p_batch` that are damaged: `examined` is how many it examined, `next_after` where to
-- continue (null at the end). Nothing is locked, so that a sound queue costs little more than reading it.
create or replace function tidegate_internal.requests_missing_message(
  p_after uuid, p_kind text, p_batch integer, p_window integer, p_reset_all boolean,
  out ids uuid[], out queues text[], out msg_ids bigint[], out examined bigint, out next_after uuid
)
  language plpgsql stable as $$
declare
  v_live     uuid[];
  v_messages text;
begin
  -- First how far this batch goes: requests that end meanwhile must not make it skip others.
  v_live := array(
    select r.id
    from tidegate.request as r
    where r.id > coalesce(p_after, '00000000-0000-0000-0000-000000000000')
      and r.req_status in ('queued', 'processing', 'tx_in_flight') and (p_kind is null or r.kind = p_kind)
    order by r.id
    limit p_window
  );

  select coalesce(string_agg(format(
    $sql$
      select m.message ->> 'id' as request_id
      from %s as m
      where r.queue = %L and m.msg_id = r.msg_id
    $sql$,
    tidegate_internal.queue_table(q.name), q.name
  ), ' union all '), 'select null::text as request_id where false')
  into v_messages
  from tidegate_internal.stored_queues() as q;

  -- The inner query is not flattened (`offset 0`), so that the limit ends it row by row.
  execute format(
    $sql$
      select array_agg(a.id order by a.id), array_agg(a.queue order by a.id), array_agg(a.msg_id order by a.id)
      from (
        select r.id, r.queue, r.msg_id
        from (
          select
            r.id, r.kind, r.submitter, r.req_status, r.queue, r.msg_id,
            -- Null under no lease.
            case when r.lease is not null then (
              select bool_or(tidegate.is_held(c.until, c.lease_ms, $6))
              from tidegate.claim as c
              where c.token = r.lease and c.queue = r.queue and r.id = any(c.ids)
            ) end as held
          from tidegate.request as r
          where r.id >= $1 and r.id <= $4
            and r.req_status in ('queued', 'processing', 'tx_in_flight') and ($2 is null or r.kind = $2)
          order by r.id
          offset 0
        ) as r
        left join lateral (%s) as m on true
        where (r.held is null and m.request_id is distinct from r.id::text)
          or r.queue <> all (case when r.req_status = 'queued' then $8 else $9 end)
          or r.req_status = 'tx_in_flight' and ($5 or r.held is not true)
          or $7 and exists (
            select from tidegate.gate as g
            where (g.kind = r.kind or g.submitter = r.submitter)
              and not exists (select from tidegate.quota_usage as c where c.gate = g.name and c.request_id = r.id)
          )
        order by r.id
        limit $3
      ) as a
    $sql$,
    v_messages
  )
  into ids, queues, msg_ids
  using
    v_live[1], p_kind, p_batch, v_live[cardinality(v_live)], p_reset_all, tidegate.clock(),
    exists (select from tidegate.gate as g where g.queue is null),
    array(select q.name from tidegate.queue as q where q.stage = 'readiness'),
    array(select q.name from tidegate.queue as q where q.stage = 'tx');

  next_after := case when cardinality(ids) = p_batch then ids[p_batch] else v_live[p_window] end;
  examined := case when next_after is null then cardinality(v_live) else array_position(v_live, next_after) end;
end;
$$;
