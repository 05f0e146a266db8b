-- survey_queue: Maintenance: counts the waiting messages of a queue by chunks of numbers, so that positions deep in
-- it are cheap; returns how many chunks had changed.
--
-- Null when another session is surveying the queue. Runs as a maintenance duty, `chunks` at a time: those at the
-- head and the tail, where a queue changes, each time, and of the others the next ones, in turn. Without `chunks`,
-- all of them. A queue of a few hundred messages has no survey: it is counted at each request for a position.
--
-- A survey that is killed leaves the one before. At both ends it only saves work: `waiting_before` counts the head and
-- the newest numbers itself, so the survey matters for the chunks between.
create or replace function tidegate.survey_queue(queue text, chunks integer default null)
  returns bigint language plpgsql security definer as $$
declare
  v_queue    constant text := survey_queue.queue;
  v_numbers  constant bigint := 16384;  -- of a chunk
  v_small    constant bigint := 512;    -- numbers, from the first waiting message to the newest
  v_many     constant integer := 1000;  -- messages with a time that has come; fewer, and `waiting_before` counts them
  v_catch_up constant integer := 16;    -- chunks, at the head and at the tail, in one step
  v_cursor   bigint;
  v_mark     bigint;
  v_due      timestamptz;
  v_now      timestamptz;
  v_end      bigint;
  v_seen     record;
  v_low      bigint;
  v_high     bigint;
  v_next     bigint;
  v_tail     bigint;
  v_differed bigint;
  v_changed  bigint := 0;
  v_below    bigint[] := '{}';
begin
  perform tidegate_internal.require_read_committed('survey_queue');
  if not pg_try_advisory_xact_lock(tidegate.queue_lock_key(v_queue, 'survey')) then
    return null;
  end if;
  -- After the lock, which the removal of a queue takes too; its storage may have been dropped by hand.
  perform tidegate_internal.require_queue(v_queue);
  if to_regclass(tidegate_internal.queue_table(v_queue)) is null then
    return 0;
  end if;

  v_mark := coalesce(pg_sequence_last_value(tidegate_internal.queue_counter(v_queue, 'watermark')), 0);
  v_due := to_timestamp(
    coalesce(pg_sequence_last_value(tidegate_internal.queue_counter(v_queue, 'due_watermark')), 0) / 1000000.0
  );
  v_end := (select k.last + 1 from tidegate_internal.queue_numbers(v_queue) as k);
  v_now := tidegate.clock();
  execute format(
    $sql$
      select
        (select count(*) from (select 1 from %1$s where vt > $1 and vt <= $2 order by vt limit $4) as due) as due,
        -- No further than a watermark lags behind: messages that are not due yet may reach far.
        (select msg_id from %1$s where msg_id between $3 and $3 + 8191 and vt <= $2 order by msg_id limit 1) as first
    $sql$, tidegate_internal.queue_table(v_queue)
  ) into v_seen using v_due, v_now, v_mark, v_many;

  v_seen.first := coalesce(v_seen.first, least(v_mark + 8192, v_end));
  perform setval(tidegate_internal.queue_counter(v_queue, 'first_waiting'), v_seen.first);
  v_low := v_mark / v_numbers;
  v_high := v_end / v_numbers;

  -- Below the watermark only due messages wait; when they are many, their chunks count, and no others.
  if v_seen.due >= v_many then
    execute format(
      $sql$
        select array(
          select distinct d.msg_id / $1
          from (select msg_id from %s where vt > $2 and vt <= $3 order by vt offset 0) as d
          where d.msg_id < $4 * $1
        )
      $sql$, tidegate_internal.queue_table(v_queue)
    ) into v_below using v_numbers, v_due, v_now, v_low;
    v_changed := tidegate_internal.survey_chunks(v_queue, v_below, v_end);
  elsif v_end - v_seen.first < v_small then
    v_high := -1;
  end if;
  delete from tidegate.queue_survey as s
  where s.queue = v_queue and (s.chunk > v_high or (s.chunk < v_low and s.chunk <> all(v_below)));

  if survey_queue.chunks is null then
    v_changed := v_changed + tidegate_internal.survey_chunks(v_queue, array(select generate_series(v_low, v_high)),
      v_end);
  elsif v_low <= v_high then
    -- The head: up to the first chunk that is as it was known.
    v_next := v_low;
    loop
      v_differed := tidegate_internal.survey_chunks(v_queue, array[v_next], v_end);
      v_changed := v_changed + v_differed;
      v_next := v_next + 1;
      exit when v_next > v_high or v_next > v_low + v_catch_up
        or (v_differed = 0 and v_next > v_seen.first / v_numbers);
    end loop;

    -- The tail: from shortly before the newest one known, where a submission may have committed late.
    select greatest(max(s.chunk) - 1, v_next) into v_tail from tidegate.queue_survey as s where s.queue = v_queue;
    v_changed := v_changed + tidegate_internal.survey_chunks(
      v_queue, array(select generate_series(v_tail, least(v_high, v_tail + v_catch_up))), v_end
    );

    -- Between them: the next ones, in turn.
    if v_next < v_tail then
      v_cursor := pg_sequence_last_value(tidegate_internal.queue_counter(v_queue, 'survey_cursor'));
      if v_cursor between v_next and v_tail - 1 is not true then
        v_cursor := v_next;
      end if;
      v_changed := v_changed + tidegate_internal.survey_chunks(
        v_queue, array(select generate_series(v_cursor, least(v_tail, v_cursor + survey_queue.chunks) - 1)), v_end
      );
      perform setval(tidegate_internal.queue_counter(v_queue, 'survey_cursor'), v_cursor + survey_queue.chunks);
    end if;
  end if;

  perform setval(
    tidegate_internal.queue_counter(v_queue, 'not_waiting'),
    coalesce((
      select max(s.chunk * 64 + cardinality(s.waiting_by_block)) * 256 - sum(s.waiting)
      from tidegate.queue_survey as s
      where s.queue = v_queue
    ), 0)
  );
  -- Last, because no rollback undoes it: exact positions rely on this time of the survey.
  perform setval(
    tidegate_internal.queue_counter(v_queue, 'surveyed_at'), (extract(epoch from v_now) * 1000000)::bigint
  );
  return v_changed;
end;
$$;
select tidegate_internal.allow('survey_queue', '{api,worker,admin}');
