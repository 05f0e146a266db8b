-- later_seconds: in how many seconds enough of a queue's messages may be served for `p_above` of `p_depth` to go
--
-- Null when that many wait or are held now: then it is a matter of the queue's rate. Otherwise the time until so many of
-- those that are put off (a delayed start, a backoff) come due, counted as far as ten thousand.
create or replace function tidegate_internal.later_seconds(p_queue text, p_depth bigint, p_above bigint)
  returns integer
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_now   constant timestamptz := tidegate.clock();
  v_times timestamptz[];
  v_place bigint;
begin
  if p_above <= 0 or to_regclass(tidegate_internal.queue_table(p_queue)) is null then
    return null;
  end if;
  execute format(
    $sql$
      select array_agg(m.vt order by m.vt)
      from (select vt from %s where vt > $1 and headers is null order by vt limit 10000) as m
    $sql$,
    tidegate_internal.queue_table(p_queue)
  ) into v_times using v_now;
  v_place := p_above - (p_depth - coalesce(cardinality(v_times), 0));
  return case when v_place > 0 then least(ceil(extract(epoch from v_times[v_place] - v_now)), 2147483647) end;
end;
$$;

comment on function tidegate_internal.later_seconds is
  'In how many seconds enough of a queue''s messages may be served for so many to go.';
