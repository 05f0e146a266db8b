-- audit_lives: One page: audits the lives of a kind since a time, the oldest first, as `audit_replay` audits one;
-- continues at next_after.
--
-- Examines at most `batch` requests with an id greater than `after` that were submitted at `since` or later, of `kind`
-- or of every kind; what is between their ids is read, too. Returns how many it has `examined`, how many of these have
-- `ended`, those with findings (`wrong`, a JSON array of {"job_id", "kind", "state", "findings"}), and where to
-- continue (`next_after`, null at the end).
create or replace function tidegate.audit_lives(
  kind text default null, since timestamptz default null, after uuid default null, batch integer default 100,
  out examined bigint, out ended bigint, out wrong jsonb, out next_after uuid
)
  language plpgsql stable security definer
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_now   constant timestamptz := tidegate.clock();
  v_after constant uuid := coalesce(audit_lives.after, '00000000-0000-0000-0000-000000000000');
  -- Ids cannot express times beyond these bounds.
  v_since constant uuid := tidegate.uuid_v7_floor(least(greatest(audit_lives.since, '1970-01-01Z'), '9999-01-01Z'));
  v_ids   uuid[];
begin
  if coalesce(batch, 0) not between 1 and 10000 then
    raise exception using errcode = 'TG007', message = format('a batch is 1 to 10000 requests, not %s', batch);
  end if;
  if audit_lives.kind is null then
    v_ids := array(
      select r.id from tidegate.request as r where r.id > v_after and r.id >= v_since order by r.id limit batch
    );
  else
    perform tidegate_internal.require_kind(audit_lives.kind);
    -- Compared as pairs, so that no index but (kind, id) will do.
    v_ids := array(
      select r.id
      from tidegate.request as r
      where r.kind >= '' and (r.kind, r.id) > (audit_lives.kind, v_after)
        and (r.kind, r.id) >= (audit_lives.kind, v_since)
        and (r.kind, r.id) <= (audit_lives.kind, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
      order by r.kind, r.id
      limit batch
    );
  end if;

  with violations as materialized (
    select v.*
    from tidegate_internal.audit_violations(
      v_ids[1], (select n.id from tidegate.request as n where n.id > v_ids[cardinality(v_ids)] order by n.id limit 1)
    ) as v
  )
  select
    count(*), count(*) filter (where r.req_status in ('completed', 'timed_out', 'failure')),
    coalesce(jsonb_agg(jsonb_build_object(
      'job_id', r.id, 'kind', r.kind, 'state', r.req_status, 'findings', f.findings
    ) order by r.id) filter (where f.findings is not null), '[]')
  into examined, ended, wrong
  from unnest(v_ids) as i(id)
  join tidegate.request as r on r.id = any(array[i.id])
  cross join lateral (
    select jsonb_agg(coalesce(a.transition_no || ': ', '') || a.finding order by a.transition_no) as findings
    from (
      select s.transition_no, nullif(concat_ws('; ', v.finding, s.finding), '') as finding
      from tidegate_internal.audit_steps(r, v_now) as s
      left join violations as v on v.request_id = r.id and v.transition_no = s.transition_no
      union all
      select null, w.finding from tidegate_internal.audit_whole(r, v_now) as w
      union all
      select null, v.finding from violations as v where v.request_id = r.id and v.transition_no is null
    ) as a
    where a.finding is not null
  ) as f;
  next_after := case when cardinality(v_ids) = batch then v_ids[batch] end;
end;
$$;
select tidegate_internal.allow('audit_lives', '{reader,admin}');
