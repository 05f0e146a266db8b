-- redrive: (entry) → queued or processing: submits failed and timed-out requests again, each once, as new requests, as
-- far as the gates have room. One batch: call again with next_after.
--
-- One bounded batch a call, in the order of ids above `after`, of which it reads 10,000 at most: requests of one kind
-- and submitter, each under the link that it was redriven. So none is submitted twice. The new requests have the kind,
-- payload, submitter and callback of the old ones, and find the gates as any submission does: what is `refused` is not
-- linked, and may come again in `retry_after_seconds`. A full quota does not block other kinds and submitters; a full
-- queue ends the round. Nor does a request that cannot be submitted (its derived key stands for another payload): it is
-- `unfit`, with the reason. Without more to do `next_after` is null; `refused` and `unfit` are those up to there.
--
-- `kind`, `submitter`, `since` (they ended then or later), `until` (they ended before), `code` (of their error),
-- `requests` (their ids) and `states` (failure, timed_out) narrow it. Without a code, those that were cancelled are
-- left alone, unless `requests` names them. Those that were, or may have been, executed are submitted again only with
-- `may_repeat`, or in kinds whose keys are free after such an end. What may have been executed, and what repeats such a
-- request, is sent under the id of the first of them: a downstream that recognises ids executes it once, and a response
-- to either answers the new one. Anything else is a new request to the downstream. A caller who repeats the old
-- idempotency key gets the new request; what a caller has submitted again already is left alone. Where the kind
-- requires keys, or makes one that still stands for the old request, the new one has one made of the id of the old.
-- `dry_run` counts what there is to redrive, of all kinds, and changes nothing.
create or replace function tidegate.redrive(
  batch integer default 100, after uuid default null, kind text default null, since timestamptz default null,
  code text default null, dry_run boolean default false, actor text default null, may_repeat boolean default false,
  submitter text default null, until timestamptz default null, requests uuid[] default null,
  states tidegate.request_status[] default null,
  out redriven bigint, out refused bigint, out retry_after_seconds integer, out ids uuid[],
  out new_ids uuid[], out unfit bigint, out unfit_ids uuid[], out unfit_reasons text[], out next_after uuid
)
  language plpgsql security definer as $$
declare
  v_found    record;
  v_group    uuid[];
  v_new      uuid[] := '{}';
  v_are_new  boolean[];
  v_refused  uuid[];
  -- What was executed of the group, and what has become known of it meanwhile.
  v_executed text[];
  v_known    uuid[];
  v_first    constant uuid := (select i.id from unnest(requests) as i(id) order by i.id limit 1);
  v_last     constant uuid := (select i.id from unnest(requests) as i(id) order by i.id desc limit 1);
  -- The last request that this batch reads; null: none is left behind it.
  v_to       uuid;
begin
  select 0, 0, 0, '{}', '{}', '{}', '{}' into redriven, refused, unfit, ids, new_ids, unfit_ids, unfit_reasons;
  perform tidegate_internal.require_kind(redrive.kind) where redrive.kind is not null;
  if coalesce(batch, 0) not between 1 and 10000 then
    raise exception using errcode = 'TG007', message = format('a batch is 1 to 10000 requests, not %s', batch);
  end if;
  if exists (select from unnest(states) as s where s not in ('failure', 'timed_out')) then
    raise exception using errcode = 'TG007',
      message = format('%s is not redriven: failure and timed_out are', array_to_string(array(
        select s from unnest(states) as s where s not in ('failure', 'timed_out')), ' or '));
  end if;
  if not dry_run then
    perform tidegate_internal.require_read_committed('redrive');
    -- One at a time: the next one sees, in later statements, what this one has linked.
    perform pg_advisory_xact_lock(hashtextextended('tidegate.redrive', 0));
  end if;

  if requests is null then
    select r.id into v_to
    from tidegate.request as r
    where r.id > coalesce(redrive.after, '00000000-0000-0000-0000-000000000000')
    order by r.id
    offset 9999 limit 1;
  end if;
  select array_agg(r.id order by r.id) as ids, array_agg(r.kind order by r.id) as kinds,
    array_agg(r.submitter order by r.id) as submitters
  into v_found
  from (
    select r.id, r.kind, r.submitter
    from tidegate.request as r
    where r.id > coalesce(redrive.after, '00000000-0000-0000-0000-000000000000')
      and r.id >= coalesce(v_first, '00000000-0000-0000-0000-000000000000')
      and r.id <= coalesce(v_last, v_to, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
      and (redrive.requests is null or r.id = any(redrive.requests))
      and r.req_status in ('failure', 'timed_out')
      and (redrive.states is null or r.req_status = any(redrive.states))
      and (redrive.kind is null or r.kind = redrive.kind)
      and (redrive.since is null or r.finished_at >= redrive.since)
      and (redrive.until is null or r.finished_at < redrive.until)
      and (redrive.submitter is null or r.submitter = redrive.submitter)
      and case when redrive.code is not null then r.error ->> 'code' = redrive.code
        else redrive.requests is not null or r.error ->> 'code' is distinct from 'cancelled' end
      and (may_repeat or (tidegate.executed(r) = 'no' and r.send_id is null) or exists (
        select from tidegate.kind as k where k.name = r.kind and k.key_after_unknown = 'free'
      ))
      and not exists (select from tidegate.redrive as v where v.request_id = r.id)
    order by r.id
    limit batch
  ) as r;
  if v_found.ids is null then
    next_after := v_to;
    return;
  end if;
  if dry_run then
    ids := v_found.ids;
    redriven := cardinality(ids);
    next_after := case when redriven = batch then ids[redriven] else v_to end;
    return;
  end if;

  v_group := array(
    select c.id
    from unnest(v_found.ids, v_found.kinds, v_found.submitters) as c(id, kind, submitter)
    where c.kind = v_found.kinds[1] and c.submitter is not distinct from v_found.submitters[1]
    order by c.id
  );
  -- As many of them at once as can be submitted together.
  loop
    exit when v_group = '{}';
    v_executed := array(select tidegate.executed(r) from tidegate.request as r where r.id = any(v_group) order by r.id);
    begin
      select
        array_agg(s.id order by s.place), array_agg(s.outcome = 'accepted' order by s.place),
        max(s.seconds) filter (where s.id is null)
      into v_new, v_are_new, retry_after_seconds
      from tidegate_internal.submit_requests(
        v_found.kinds[1], array(select r.payload from tidegate.request as r where r.id = any(v_group) order by r.id),
        -- With a blank, which no key that comes over HTTP has.
        (select array_agg(
           case when k.key_mode = 'required' or k.key_after_unknown <> 'free' and tidegate.executed(r) <> 'no'
             then 'redrive ' || r.id end
           order by r.id
         )
         from tidegate.request as r
         join tidegate.kind as k on k.name = r.kind and k.key_mode <> 'caller'
         where r.id = any(v_group)),
        array_fill(v_found.submitters[1], array[cardinality(v_group)]), 'enforce', null, true, p_links => false
      ) with ordinality as s(id, outcome, status, queue, queue_position, seconds, eta_p50_ms, eta_p90_ms, place);

      -- Locked after the keys, as by submissions. Of what has become known meanwhile, or what its caller has submitted
      -- again, nothing is submitted.
      perform from (select 1 from tidegate.request as r where r.id = any(v_group) order by r.id for update) as locked;
      v_known := array(
        select g.id
        from unnest(v_group, v_executed, v_new) as g(id, executed, new_id)
        join tidegate.request as r on r.id = g.id
        left join tidegate.redrive as v on v.request_id = g.id
        where tidegate.executed(r) <> g.executed or v.redriven_as <> g.new_id
      );
      if v_known <> '{}' then
        raise exception sqlstate 'TG999';
      end if;
      insert into tidegate.redrive as v (request_id, redriven_as, on_behalf_of)
      select g.id, g.new_id, left(coalesce(redrive.actor, nullif(current_setting('tidegate.actor', true), '')), 200)
      from unnest(v_group, v_new) as g(id, new_id)
      where g.new_id is not null
      on conflict on constraint redrive_pkey do update set on_behalf_of = excluded.on_behalf_of;
      exit;
    exception when sqlstate 'TG999' then
      v_group := array(select g.id from unnest(v_group) as g(id) where g.id <> all(v_known));
      v_new := '{}';
    when sqlstate 'TG003' or sqlstate 'TG004' or sqlstate 'TG007' then
      -- TG003 refuses the kind, so all of the group; another error only this request.
      if sqlstate = 'TG003' or cardinality(v_group) = 1 then
        unfit_ids := v_group;
        unfit_reasons := array_fill(sqlerrm, array[cardinality(v_group)]);
        v_new := '{}';
        exit;
      end if;
      v_group := v_group[1 : cardinality(v_group) / 2];
    end;
  end loop;

  select
    coalesce(array_agg(g.id order by g.id) filter (where g.new_id is not null), '{}'),
    coalesce(array_agg(g.new_id order by g.id) filter (where g.new_id is not null), '{}'),
    array_agg(g.id) filter (where g.new_id is null)
  into ids, new_ids, v_refused
  from unnest(v_group, v_new) as g(id, new_id)
  where v_new <> '{}';
  update tidegate.request as r
  set callback_url = o.callback_url, send_id = w.send_id, traceparent = o.traceparent
  from unnest(v_group, v_new, v_are_new) as n(id, new_id, is_new)
  join tidegate.request as o on o.id = n.id
  cross join lateral (
    select coalesce(o.send_id, case tidegate.executed(o) when 'unknown' then o.id end) as send_id
  ) as w
  where v_new <> '{}' and r.id = n.new_id and n.is_new
    and num_nonnulls(o.callback_url, w.send_id, o.traceparent) > 0;
  redriven := cardinality(ids);
  if v_refused is null or not exists (
    select
    from tidegate.kind as k
    join tidegate.gate as g on g.queue in (k.readiness_queue, k.tx_queue) and g.state = 'too_many_requests'
    where k.name = v_found.kinds[1]
  ) then
    -- Before the first request of another kind or submitter, or behind all.
    select case
      when min(c.place) is not null then v_found.ids[min(c.place) - 1]
      when cardinality(v_found.ids) = batch then v_found.ids[batch]
      else v_to
    end
    into next_after
    from unnest(v_found.ids) with ordinality as c(id, place)
    where c.id <> all(v_group);
  end if;
  -- Requests behind next_after are examined again by the next call.
  refused := (select count(*) from unnest(v_refused) as r(id) where next_after is null or r.id <= next_after);
  unfit_ids := array(
    select u.id from unnest(unfit_ids) as u(id) where next_after is null or u.id <= next_after order by u.id
  );
  unfit := cardinality(unfit_ids);
  unfit_reasons := unfit_reasons[1 : unfit];
end;
$$;
select tidegate_internal.plan_along_indexes('redrive');
select tidegate_internal.allow('redrive', '{admin}');
