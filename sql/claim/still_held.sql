-- still_held: which of the given leases are still held, for a request that still wants its call
--
-- For whoever runs calls that take long. Drop the call of a missing lease: it has run out or was taken over, or its
-- request was cancelled or has ended. Reads only and waits for nobody, so it promises nothing: the settle decides.
-- Raises TG007 when the leases name more than one queue.
create or replace function tidegate.still_held(leases tidegate.lease[])
  returns setof tidegate.lease
  language plpgsql
  stable
  security definer
  set search_path = pg_catalog, pg_temp
  set jit = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_queue  text;
  v_queues integer;
begin
  select min(l.queue), count(distinct l.queue) into v_queue, v_queues from unnest(leases) as l;
  if v_queues = 0 then
    return;
  end if;
  if v_queues > 1 then
    raise exception using
      errcode = 'TG007',
      message = 'the leases of one call must all name the same queue',
      hint = 'ask about the leases of each queue in a call of its own';
  end if;
  perform tidegate_internal.require_queue(v_queue);

  return query execute format(
    $sql$
      select l.queue, l.msg_id, l.nonce
      from (select distinct l.queue, l.msg_id, l.nonce from unnest($1) as l) as l
      join %s as m on m.msg_id = l.msg_id and m.headers ->> 'nonce' = l.nonce::text
      join tidegate.request as r on r.id = tidegate.message_request_id(m.message) and r.queue = l.queue and r.msg_id = m.msg_id
      where m.msg_id = any($2) and tidegate.is_held(m.headers, m.vt, tidegate.clock())
        and r.req_status in ('queued', 'tx_in_flight')
    $sql$,
    tidegate_internal.queue_table(v_queue)
  ) using leases, array(select l.msg_id from unnest(leases) as l);
end;
$$;

comment on function tidegate.still_held is
  'Which of the given leases are still held: the calls of the others are to be dropped. Reads only.';
select tidegate_internal.allow('still_held', '{worker,admin}');
