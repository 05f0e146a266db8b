-- take_samples: Maintenance duty: measures the pace of every queue and kind, and folds samples of ended requests;
-- returns how many it folded.
--
-- Also folds the requests that ended more than ten seconds ago: into `eta_quality_total`, and the latest thousand
-- answers of a kind into `answer_sample`. In bounded batches: returns how many samples it folded, 10000 when there may
-- be more.
create or replace function tidegate.take_samples()
  returns bigint language plpgsql security definer as $$
declare
  v_now    constant timestamptz := tidegate.clock();
  v_folded bigint;
begin
  perform tidegate_internal.sample_queue(q, v_now) from tidegate_internal.stored_queues() as q;
  perform tidegate_internal.sample_kind(o.kind, v_now)
  from (select k as kind from tidegate.kind as k order by k.name) as o;

  with taken as (
    delete from tidegate.finish_sample as f
    where f.ctid = any(array(
      select s.ctid from tidegate.finish_sample as s where s.at < v_now - interval '10 seconds' limit 10000
    ))
    returning f.*
  ), kept as (
    insert into tidegate.answer_sample (kind, at, answer_ms)
    select t.kind, t.at, t.answer_ms
    from (
      select t.*, row_number() over (partition by t.kind order by t.at desc) as place
      from taken as t
      where t.answer_ms is not null
    ) as t
    where t.place <= 1000
  ), folded as (
    insert into tidegate.eta_quality_total as q (
      kind, requests, predicted, error_ms, error_abs_ms, error_bins, p90_stated, p90_held
    )
    select
      t.kind, sum(t.requests), sum(t.predicted), sum(t.error_ms), sum(t.error_abs_ms),
      array(
        select sum(bin.requests)
        from taken as o, unnest(o.error_bins) with ordinality as bin(requests, place)
        where o.kind = t.kind
        group by bin.place
        order by bin.place
      ), sum(t.p90_stated), sum(t.p90_held)
    from taken as t
    group by t.kind
    on conflict (kind) do update
    set
      requests = q.requests + excluded.requests, predicted = q.predicted + excluded.predicted,
      error_ms = q.error_ms + excluded.error_ms, error_abs_ms = q.error_abs_ms + excluded.error_abs_ms,
      error_bins = array(select a + b from unnest(q.error_bins, excluded.error_bins) as bins(a, b)),
      p90_stated = q.p90_stated + excluded.p90_stated, p90_held = q.p90_held + excluded.p90_held
  )
  select count(*) into v_folded from taken;

  delete from tidegate.answer_sample as a
  using (
    select distinct k.kind, (
      select s.at from tidegate.answer_sample as s where s.kind = k.kind order by s.at desc offset 1000 limit 1
    ) as until
    from tidegate.kind_pace as k
  ) as old
  where a.kind = old.kind and a.at <= old.until;
  return v_folded;
end;
$$;
select tidegate_internal.allow('take_samples', '{api,worker,admin}');
