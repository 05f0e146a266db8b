-- recover_counts: Puts right the counts by kind and status that differ from the requests there are; returns them.
--
-- Returns a row for each that was wrong. Counts come from deltas that commit with their requests, so one snapshot sees
-- what is missing exactly, whatever goes on meanwhile. Reads every request: seconds for millions. `dry_run` changes
-- nothing; `run` is whose record counts them.
create or replace function tidegate.recover_counts(dry_run boolean default false, run bigint default null)
  returns table (kind text, req_status tidegate.request_status, counted bigint, requests bigint)
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
  set jit = off
as $$
#variable_conflict use_column
declare
  v_wrong record;
begin
  -- Two at once would both make up for the same difference.
  if not dry_run then
    perform pg_advisory_xact_lock(hashtextextended('tidegate.recover_counts', 0));
  end if;
  select
    array_agg(w.kind order by w.kind, w.req_status) as kinds,
    array_agg(w.req_status order by w.kind, w.req_status) as statuses,
    array_agg(w.counted order by w.kind, w.req_status) as counted,
    array_agg(w.requests order by w.kind, w.req_status) as requests
  into v_wrong
  from (
    select c.kind, c.req_status, sum(c.counted)::bigint as counted, sum(c.requests)::bigint as requests
    from (
      select t.kind, t.req_status, t.requests as counted, 0 as requests from tidegate.request_count as t
      union all
      select d.kind, d.req_status, d.delta, 0 from tidegate.request_count_delta as d
      union all
      select r.kind, r.req_status, 0, count(*) from tidegate.request as r group by r.kind, r.req_status
    ) as c
    group by c.kind, c.req_status
    having sum(c.counted) <> sum(c.requests)
  ) as w;
  if v_wrong.kinds is null then
    return;
  end if;
  if not dry_run then
    insert into tidegate.request_count_delta (kind, req_status, delta)
    select w.kind, w.req_status, w.requests - w.counted
    from unnest(v_wrong.kinds, v_wrong.statuses, v_wrong.counted, v_wrong.requests) as w(kind, req_status, counted,
      requests);
    perform tidegate_internal.record_recovery(run, jsonb_build_object('counts', cardinality(v_wrong.kinds)));
  end if;
  return query select * from unnest(v_wrong.kinds, v_wrong.statuses, v_wrong.counted, v_wrong.requests);
end;
$$;
select tidegate_internal.allow('recover_counts', '{admin}');
