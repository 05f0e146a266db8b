-- config_literal: Converts the value of a setting into the form of its column; raises TG007 with the expected form.
--
-- Null stands for "none". A number is brought into the column's unit, and must get there whole where the column holds
-- whole ones: nothing is rounded silently. A time may have its own unit, such as 5s, and a rate, too, such as 100/min.
-- Constraints decide the range of values.
create or replace function tidegate_internal.config_literal(p_name text, p_column tidegate.config_column, p_value jsonb)
  returns jsonb language plpgsql stable as $$
declare
  v_given    text := coalesce(btrim(p_value #>> '{}'), '');
  v_wants    text := case p_column.type
    when 'number' then 'a number' || coalesce(
      ' (' || p_column.unit || case
        when p_column.unit in ('ms', 's') then ', or with a unit: 5s'
        when p_column.unit = 'sends per second' then ', or 100/min'
        else ''
      end || ')', ''
    )
    when 'boolean' then 'true or false'
    when 'interval' then 'a time of up to 100 years, such as 90 s, 15 minutes or 7 days'
    when 'list' then 'a list of words'
    else 'a word'
  end || case when p_column.nullable then ' or none' else '' end;
  v_number   numeric;
  v_interval interval;
begin
  if jsonb_typeof(p_value) = 'null' or lower(v_given) in ('none', 'null') then
    if not p_column.nullable then
      raise exception using errcode = 'TG007', message = format('%s is %s, and not none', p_name, v_wants);
    end if;
    return 'null';
  end if;
  if length(v_given) not between 1 and 1000 then
    raise exception using
      errcode = 'TG007', message = format('%s is %s, in 1 to 1000 characters, not %s', p_name, v_wants,
        length(v_given));
  end if;

  begin
    case
      when p_column.type = 'number' and jsonb_typeof(p_value) in ('number', 'string') then
        v_number := trim_scale(p_column.factor * case
          when p_column.unit in ('ms', 's') and v_given ~ '^[0-9.]+ *[a-z]+$' then
            extract(epoch from v_given::interval) * case p_column.unit when 'ms' then 1000 else 1 end
          when p_column.unit = 'sends per second' and v_given ~ '^[0-9.]+ */ *(s|min|h)$' then
            split_part(v_given, '/', 1)::numeric
              / case btrim(split_part(v_given, '/', 2)) when 'h' then 3600 when 'min' then 60 else 1 end
          else v_given::numeric
        end);
        if v_number::text in ('NaN', 'Infinity', '-Infinity') then
          null;
        elsif p_column.whole and scale(v_number) > 0 then
          raise exception using errcode = 'TG007',
            message = format('%s takes no fraction of %s, so it cannot be %s', p_name,
              case p_column.factor when 1000 then 'a millisecond' else 'one' end, left(v_given, 100));
        elsif scale(v_number) > 20 or (p_column.whole and abs(v_number) > 2147483647) then
          raise exception using
            errcode = 'TG007', message = format('%s = %s is beyond what it can hold', p_name, left(v_given, 100));
        else
          return to_jsonb(v_number::text);
        end if;
      when p_column.type = 'boolean' and jsonb_typeof(p_value) in ('boolean', 'string') then
        return to_jsonb(v_given::boolean);
      when p_column.type = 'interval' and jsonb_typeof(p_value) in ('number', 'string')
        and v_given ~ '^[[:alnum:] .:+-]+$'
      then
        v_interval := v_given::interval;
        if isfinite(v_interval) and v_interval <= interval '100 years' then
          return to_jsonb(v_interval::text);
        end if;
      when p_column.type = 'list' and jsonb_typeof(p_value) in ('array', 'string') then
        return (
          select coalesce(jsonb_agg(btrim(e.word) order by e.place), '[]')
          from unnest(case jsonb_typeof(p_value)
            when 'array' then array(select jsonb_array_elements_text(p_value))
            else string_to_array(btrim(v_given, '{}'), ',')
          end) with ordinality as e(word, place)
        );
      when p_column.type = 'text' and jsonb_typeof(p_value) = 'string' then
        return to_jsonb(v_given);
      else
        null;
    end case;
  exception when data_exception then
    null;
  end;
  raise exception using errcode = 'TG007', message = format('%s is %s, not "%s"', p_name, v_wants, left(v_given, 100));
end;
$$;
