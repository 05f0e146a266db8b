-- cancel_requests: queued or processing → failure (cancelled), at once, of the requests that a filter names; those that
-- are being sent are cancelled unless their send succeeds. One batch: call again with before => next_before.
--
-- The filter is that of `list_requests`, and at least one part of it is given: a call for all requests says so, with
-- `until => 'infinity'`. `requests`, a batch of ids at most, names them instead, and `states` alone narrows these.
-- `states` are some of queued, processing and tx_in_flight; null: these three. Newest first, so what is submitted
-- meanwhile is behind the first batch, and stays. A batch has at most `batch` requests and reads about 10,000; its
-- locks end with its transaction. `cancelled` and `cancelling` are the numbers of those that have ended and of those
-- that are being sent, `ids` both; a request that has moved on meanwhile is in neither. Without more to do
-- `next_before` is null. `dry_run` counts, and changes nothing. Raises TG002 for an unknown kind, TG005 for an unknown
-- queue, TG007 without a filter, and for states that cannot be cancelled.
create or replace function tidegate.cancel_requests(
  kind text default null, states tidegate.request_status[] default null, since timestamptz default null,
  until timestamptz default null, submitter text default null, queue text default null, before uuid default null,
  batch integer default 100, dry_run boolean default false, requests uuid[] default null,
  out cancelled bigint, out cancelling bigint, out ids uuid[], out next_before uuid
)
  language plpgsql security definer
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_live  constant tidegate.request_status[] := '{queued,processing,tx_in_flight}';
  v_found record;
  v_ended uuid[];
begin
  if num_nonnulls(kind, states, since, until, submitter, queue, requests) = 0 then
    raise exception using errcode = 'TG007', message = 'nothing says which requests to cancel',
      hint = 'give a kind, states, a submitter, a queue or a time; all: until => ''infinity''';
  end if;
  if not coalesce(states, v_live) <@ v_live then
    raise exception using errcode = 'TG007',
      message = format('%s is not cancelled: queued, processing and tx_in_flight are', array_to_string(array(
        select s from unnest(states) as s where s <> all(v_live)), ' or '));
  end if;
  if coalesce(batch, 0) not between 1 and 1000 or cardinality(requests) > 1000 then
    raise exception using errcode = 'TG007',
      message = format('a batch is 1 to 1000 requests, not %s', coalesce(cardinality(requests), batch));
  end if;
  select
    coalesce(array_agg(r.id) filter (where r.id is not null), '{}') as ids, array_agg(r.queue) as queues,
    array_agg(r.msg_id) as msg_ids, count(*) filter (where r.req_status = 'tx_in_flight') as in_flight,
    min(l.next_before::text)::uuid as next_before
  into v_found
  from (
    select f.id, f.next_before
    from tidegate.list_requests(
      kind, coalesce(states, v_live), since, before, submitter, batch, queue => queue, until => until
    ) as f
    where requests is null
    union all
    select n.id, null
    from tidegate.request as n
    where n.id = any(requests) and n.req_status = any(coalesce(states, v_live))
  ) as l
  left join tidegate.request as r on r.id = l.id;
  next_before := v_found.next_before;
  ids := v_found.ids;
  if dry_run or ids = '{}' then
    cancelling := v_found.in_flight;
    cancelled := cardinality(ids) - cancelling;
    return;
  end if;

  -- The messages, then all rows in the order of their ids, as every transaction locks them.
  perform tidegate_internal.lock_recovery_shared();
  perform tidegate_internal.lock_messages(v_found.queues, v_found.msg_ids);
  perform from (select 1 from tidegate.request as r where r.id = any(ids) order by r.id for update) as locked;
  v_ended := array(
    select e.id
    from tidegate_internal.end_requests(
      ids, '{queued,processing}', 'failure', '{cancelled,cancelled}',
      tidegate_internal.error_json('cancelled', 'cancelled by an operator', false), true
    ) as e
  );
  with marked as (
    update tidegate.request as r
    set previous_status = r.req_status, cancel_requested_at = coalesce(r.cancel_requested_at, tidegate.clock())
    where r.id = any(ids) and r.req_status = 'tx_in_flight'
    returning r.id
  )
  select count(*), v_ended || coalesce(array_agg(m.id), '{}') into cancelling, ids from marked as m;
  cancelled := cardinality(v_ended);
end;
$$;
select tidegate_internal.allow('cancel_requests', '{admin}');
select tidegate_internal.plan_along_indexes('cancel_requests', 'hashjoin');
