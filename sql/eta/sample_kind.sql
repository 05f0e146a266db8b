-- sample_kind: Stores the answer times of a kind, and the start of a standstill in which many answers are due.
--
-- The latest thousand or so answers of the last ten minutes, as forty equally likely times; none when there are few.
create or replace function tidegate_internal.sample_kind(p_kind tidegate.kind, p_now timestamptz)
  returns void language plpgsql as $$
declare
  v_enough   constant integer := 20;
  v_last     tidegate.kind_pace;
  v_pace     tidegate.kind_pace;
  v_finished timestamptz;
  v_quiet    interval;
  v_median   interval;
begin
  select * into v_last from tidegate.kind_pace as p where p.kind = p_kind.name;
  select greatest(
    (select max(f.at) from tidegate.finish_sample as f where f.kind = p_kind.name and f.answer_ms is not null),
    (select max(a.at) from tidegate.answer_sample as a where a.kind = p_kind.name)
  ) into v_finished;
  select coalesce(sum(c.requests), 0) into v_pace.in_flight
  from tidegate.request_overview as c
  where c.kind = p_kind.name and c.req_status in ('tx_in_flight', 'receipt_received');
  if v_finished is null and v_pace.in_flight = 0 and v_last.in_flight is not distinct from 0 and v_last.samples = 0 then
    return;
  end if;

  v_pace.kind := p_kind.name;
  v_pace.observed_at := p_now;
  v_pace.in_flight_since := case when v_pace.in_flight > 0 then coalesce(v_last.in_flight_since, p_now) end;

  select
    count(*),
    case when count(*) >= v_enough then
      percentile_cont(array(select (i - 0.5) / 40 from generate_series(1, 40) as i)) within group (order by answer.ms)
    end
  into v_pace.samples, v_pace.answer_ms
  from (
    select unnest(a.answer_ms) as ms
    from (
      select f.at, f.answer_ms from tidegate.finish_sample as f where f.kind = p_kind.name
      union all
      select s.at, s.answer_ms from tidegate.answer_sample as s where s.kind = p_kind.name
    ) as a
    where a.at > p_now - interval '10 minutes'
    order by a.at desc
    limit 1000
  ) as answer;

  -- So many in flight for so long, and not one answer: ten were to be expected.
  if v_pace.answer_ms is not null and v_pace.in_flight > 0 then
    v_quiet := p_now - greatest(v_finished, v_pace.in_flight_since);
    v_median := make_interval(secs => v_pace.answer_ms[20] / 1000);
    if v_quiet >= greatest(v_median, interval '2.5 seconds') and v_pace.in_flight * v_quiet >= 10 * v_median then
      v_pace.still_since := greatest(v_finished, v_pace.in_flight_since);
    end if;
  end if;

  insert into tidegate.kind_pace as p select v_pace.*
  on conflict (kind) do update
  set
    samples = excluded.samples, answer_ms = excluded.answer_ms, in_flight = excluded.in_flight,
    in_flight_since = excluded.in_flight_since, still_since = excluded.still_since, observed_at = excluded.observed_at;
end;
$$;
