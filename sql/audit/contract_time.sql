-- contract_time: A time of a contract: a number is milliseconds, a text an interval such as "24 hours"; else null.
create or replace function tidegate_internal.contract_time(p_value jsonb)
  returns interval language plpgsql stable as $$
declare
  v_time interval;
begin
  case jsonb_typeof(p_value)
    when 'number' then v_time := make_interval(secs => (p_value #>> '{}')::float8 / 1000);
    when 'string' then
      if p_value #>> '{}' !~ '[a-zA-Z:]' then
        return null;
      end if;
      v_time := (p_value #>> '{}')::interval;
    else return null;
  end case;
  return case when v_time >= interval '0' then v_time end;
exception
  when data_exception then return null;
end;
$$;
