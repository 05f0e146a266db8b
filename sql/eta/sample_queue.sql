-- sample_queue: Stores the pace of a queue while messages wait in it, and the start of a standstill.
--
-- The pace is by how many numbers the first waiting message moved on, sampled once a second; in a fair queue by what
-- left it, and `turns_head` is sampled. Time without waiting
-- messages does not count (an idle queue would look slow), nor does time in which nothing moved: that is a standstill,
-- which has a column of its own.
create or replace function tidegate_internal.sample_queue(p_queue tidegate.queue, p_now timestamptz)
  returns void language plpgsql as $$
declare
  v_window  constant interval := '30 seconds';
  v_enough  constant interval := '5 seconds';
  v_round   constant bigint := 720720;  -- by which a round moves virtual time
  v_last    tidegate.queue_pace;
  v_pace    tidegate.queue_pace;
  v_drained timestamptz;
  v_runs    boolean;
begin
  select * into v_last from tidegate.queue_pace as p where p.queue = p_queue.name;
  v_pace.queue := p_queue.name;
  v_pace.observed_at := p_now;
  if p_queue.fair_by is not null then
    v_pace.head := tidegate_internal.turns_head(p_queue.name);
  else
    execute format(
      $sql$
        select least(
          (select m.msg_id from %1$s as m where m.msg_id >= $1 and m.vt <= $2 order by m.msg_id limit 1),
          (select m.msg_id from %1$s as m where m.vt > $3 and m.vt <= $2 order by m.vt limit 1)
        )
      $sql$,
      tidegate_internal.queue_table(p_queue.name)
    ) into v_pace.head
    using
      coalesce(pg_sequence_last_value(tidegate_internal.queue_counter(p_queue.name, 'watermark')), 0), p_now,
      to_timestamp(
        coalesce(pg_sequence_last_value(tidegate_internal.queue_counter(p_queue.name, 'due_watermark')), 0) / 1000000.0
      );
  end if;
  -- An idle queue needs no sample.
  if v_pace.head is null and v_last.queue is not null and v_last.head is null then
    update tidegate.queue_pace as p set observed_at = p_now where p.queue = p_queue.name;
    return;
  end if;

  -- The head may be of a paused kind.
  v_runs := not p_queue.paused and p_queue.paused_kinds = '{}'
    and coalesce(p_queue.per_seconds, p_queue.max_concurrency, 1) > 0;
  v_pace.head_since := case when v_pace.head = v_last.head and v_runs then v_last.head_since else p_now end;
  select max(d.at) into v_drained
  from tidegate.queue_drain as d
  where d.queue = p_queue.name and d.at > p_now - v_window;
  if v_pace.head is not null and v_runs
    and p_now - greatest(v_pace.head_since, v_drained)
      >= greatest(interval '2 seconds', make_interval(secs => 3 / p_queue.per_seconds::float8))
  then
    v_pace.still_since := greatest(v_pace.head_since, v_drained);
  elsif v_last.still_since is not null then
    update tidegate.queue_sample as s set head = null where s.queue = p_queue.name and s.at >= v_last.still_since;
  end if;

  insert into tidegate.queue_sample (queue, at, head) values (p_queue.name, p_now, v_pace.head) on conflict do nothing;
  delete from tidegate.queue_sample as s where s.queue = p_queue.name and s.at < p_now - 2 * v_window;

  -- Numbers that a message come due again goes over a second time count once. A snoozed check leaves its queue
  -- only to come back, so of a readiness queue what left it permanently is counted.
  select
    case when sum(step.at - step.since) >= v_enough
      then nullif(sum(left_it.messages) / extract(epoch from sum(step.at - step.since)), 0) end,
    case when p_queue.fair_by is not null and sum(step.moved) >= 3 * v_round
      then sum(left_it.messages) * v_round / sum(step.moved) end
  into v_pace.per_second, v_pace.per_round
  from (
    select
      s.at, lag(s.at) over earlier as since, s.head is not null and lag(s.head) over earlier is not null as waited,
      s.head - max(s.head) over (order by s.at rows between unbounded preceding and 1 preceding) as moved
    from tidegate.queue_sample as s
    where s.queue = p_queue.name and s.at > p_now - v_window
    window earlier as (order by s.at)
  ) as step
  cross join lateral (
    select case
      when p_queue.stage = 'tx' and p_queue.fair_by is null then greatest(step.moved, 0)
      else (
        select coalesce(sum(d.drained), 0)
        from tidegate.queue_drain as d
        where d.queue = p_queue.name and d.at > step.since and d.at <= step.at
      )
    end as messages
  ) as left_it
  where step.waited and step.at - step.since < interval '5 seconds';

  select case when sum(d.drained) >= 20 then sum(d.held_ms) / sum(d.drained) end into v_pace.held_ms
  from tidegate.queue_drain as d
  where d.queue = p_queue.name and d.held_ms is not null and d.at > p_now - interval '5 minutes';

  insert into tidegate.queue_pace as p select v_pace.*
  on conflict (queue) do update
  set
    head = excluded.head, head_since = excluded.head_since, still_since = excluded.still_since,
    per_second = excluded.per_second, held_ms = excluded.held_ms, per_round = excluded.per_round,
    observed_at = excluded.observed_at;
end;
$$;
