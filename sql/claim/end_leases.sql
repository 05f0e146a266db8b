-- end_leases: After a settle, deletes the claims that hold nothing any more, and counts the messages that left the
-- queue.
--
-- The caller has taken the tokens `p_tokens` out of the rows of `p_ids`. `p_drained` are the times at which the drained
-- requests were claimed. A claim whose row is locked is left to the reaper: to wait for it here, with rows locked,
-- could end in a deadlock.
create or replace function tidegate_internal.end_leases(
  p_queue text, p_ids uuid[], p_tokens bigint[], p_drained timestamptz[]
)
  returns void language plpgsql as $$
declare
  v_now constant timestamptz := tidegate.clock();
begin
  with ended as materialized (
    select c.token, c.part
    from (select t.token, count(*) as requests from unnest(p_tokens) as t(token) group by t.token) as t
    join tidegate.claim as c on c.token = t.token
    where t.requests = (select sum(cardinality(p.ids)) from tidegate.claim as p where p.token = t.token)
      or not exists (
        select
        -- Settles mostly follow the order of the claim, so the last request is read first: while it names the token,
        -- the claim stays. The requests of this settle name no lease any more, and are left out. The concatenation
        -- reads the array once, not for each subscript.
        from (select c.ids || '{}'::uuid[] as ids offset 0) as own
        cross join lateral generate_subscripts(own.ids, 1, true) as i(place)
        cross join lateral (select r.lease from tidegate.request as r where r.id = any(array[own.ids[i.place]])) as r
        where r.lease = c.token and own.ids[i.place] not in (select m.id from unnest(p_ids) as m(id))
      )
    for update of c skip locked
  )
  delete from tidegate.claim as c using ended as e where c.token = e.token and c.part = e.part;

  if p_drained is null then
    return;
  end if;
  perform tidegate_internal.gate_evaluate(p_queue, 'too_many_requests');
  insert into tidegate.queue_drain (queue, at, drained, held_ms)
  select p_queue, v_now, cardinality(p_drained),
    greatest(coalesce(extract(epoch from sum(v_now - d.claimed)) * 1000, 0), 0)::bigint
  from unnest(p_drained) as d(claimed);
end;
$$;
select tidegate_internal.plan_along_indexes('end_leases', 'hashjoin');
