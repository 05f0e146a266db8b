-- config_set_backoff: Makes the rows of `response_backoff` exactly these: 0s=4,60s=10,….
--
-- Readers see the old rows or the new ones, and concurrent calls are serialised. Raises TG007 for what cannot
-- be read; constraints limit the numbers.
create or replace function tidegate_internal.config_set_backoff(p_value jsonb)
  returns void language plpgsql as $$
declare
  v_given text := coalesce(p_value #>> '{}', '');
  v_froms interval[];
  v_waits integer[];
begin
  begin
    if v_given ~ '^[^=,]+=[^=,]+(,[^=,]+=[^=,]+)*$' then
      select
        array_agg(split_part(s.step, '=', 1)::interval order by s.place),
        array_agg(split_part(s.step, '=', 2)::integer order by s.place)
      into v_froms, v_waits
      from unnest(string_to_array(v_given, ',')) with ordinality as s(step, place);
    end if;
  exception when data_exception then
    v_froms := null;
  end;
  if v_froms is null or cardinality(v_froms) > 100
    or cardinality(v_froms) <> (select count(distinct f.from_elapsed) from unnest(v_froms) as f(from_elapsed))
  then
    raise exception using errcode = 'TG007',
      message = format('response_backoff is a list of up to 100 different times, each with the seconds to wait from '
        'then on, such as 0s=4,60s=10, not "%s"', left(v_given, 100));
  end if;

  lock table tidegate.response_backoff in share row exclusive mode;
  delete from tidegate.response_backoff as b where b.from_elapsed <> all(v_froms);
  insert into tidegate.response_backoff as b (from_elapsed, seconds)
  select n.from_elapsed, n.seconds from unnest(v_froms, v_waits) as n(from_elapsed, seconds)
  on conflict (from_elapsed) do update set seconds = excluded.seconds where b.seconds <> excluded.seconds;
end;
$$;
