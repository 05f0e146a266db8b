-- recover_counts: Corrects the counts by kind and status that differ from the requests; returns the wrong ones.
--
-- Counts come from deltas that commit with their requests, so one snapshot shows
-- the exact difference, under any concurrent load. Reads every request: seconds for millions. `dry_run` changes
-- nothing; `run` is the record that counts them.
create or replace function tidegate.recover_counts(dry_run boolean default false, run bigint default null)
  returns table (kind text, req_status tidegate.request_status, counted bigint, requests bigint)
  language plpgsql security definer as $$
declare
  v_counts bigint;
begin
  -- Of two concurrent calls the second would correct the same differences again.
  if not dry_run then
    perform pg_advisory_xact_lock(hashtextextended('tidegate.recover_counts', 0));
  end if;
  return query
    with wrong as materialized (
      select c.kind, c.req_status, sum(c.counted)::bigint as counted, sum(c.requests)::bigint as requests
      from (
        select o.kind, o.req_status, o.requests as counted, 0 as requests from tidegate.request_overview as o
        union all
        select r.kind, r.req_status, 0, count(*) from tidegate.request as r group by r.kind, r.req_status
      ) as c
      group by c.kind, c.req_status
      having sum(c.counted) <> sum(c.requests)
    ), corrected as (
      insert into tidegate.request_count_delta (kind, req_status, delta)
      select w.kind, w.req_status, w.requests - w.counted from wrong as w where not recover_counts.dry_run
    )
    select w.kind, w.req_status, w.counted, w.requests from wrong as w order by w.kind, w.req_status;
  get diagnostics v_counts = row_count;
  if not dry_run then
    perform tidegate_internal.record_recovery(run, jsonb_build_object('counts', v_counts));
  end if;
end;
$$;
select tidegate_internal.allow('recover_counts', '{admin}');
