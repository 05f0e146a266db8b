-- Functions and operators of a stranger, in schema public: one for each of pg_catalog, with the same argument types, and, where
-- pg_catalog takes any type, one for each of the types that are used most. Each leaves a trace that no rollback removes.
set check_function_bodies = off;

create sequence public.strangers_called;

do $$
declare
  v_body    constant text := 'begin perform pg_catalog.nextval(''public.strangers_called''); raise exception ''public.%s is called''; end';
  v_types   constant text[] := '{text,integer,bigint,numeric,uuid,jsonb,interval,timestamp with time zone,boolean}';
  v_found   record;
  v_type    text;
  v_more    integer;
  v_types_of text;
begin
  for v_found in
    select
      p.proname, format_type(p.prorettype, null) as returns, p.proretset, p.provariadic = '"any"'::regtype as takes_any_number,
      coalesce((
        select string_agg(format_type(t.oid, null), ', ' order by t.place)
        from unnest(p.proargtypes::oid[]) with ordinality as t(oid, place)
      ), '') as arguments
    from pg_proc as p
    where p.pronamespace = 'pg_catalog'::regnamespace and p.prokind in ('f', 'a', 'w')
  loop
    foreach v_type in array v_types loop
      for v_more in 0 .. case when v_found.takes_any_number then 3 else 0 end loop
        v_types_of := replace(replace(replace(replace(replace(v_found.arguments,
            'anycompatiblearray', v_type || '[]'), 'anyarray', v_type || '[]'), 'anycompatible', v_type), 'anyelement', v_type),
          '"any"', v_type) || repeat(', ' || v_type, v_more);
        begin
          execute format('create function public.%I(%s) returns %s language plpgsql as %L', v_found.proname, v_types_of,
            case when v_found.proretset then 'setof ' else '' end
              || case when v_found.returns like 'any%' then 'text' else v_found.returns end, format(v_body, v_found.proname));
        exception when others then
          null;
        end;
      end loop;
      exit when v_types_of = v_found.arguments;
    end loop;
  end loop;

  for v_found in
    select
      o.oprname, o.oprresult, format_type(o.oprresult, null) as returns, format_type(o.oprright, null) as takes_right,
      case when o.oprleft <> 0 then format_type(o.oprleft, null) end as takes_left
    from pg_operator as o
    where o.oprnamespace = 'pg_catalog'::regnamespace
  loop
    begin
      execute format('create or replace function public.stranger_%s(%s) returns %s language plpgsql as %L', v_found.oprresult,
        concat_ws(', ', v_found.takes_left, v_found.takes_right), v_found.returns, format(v_body, 'an operator'));
      execute format('create operator public.%s (%s rightarg = %s, function = public.stranger_%s)', v_found.oprname,
        'leftarg = ' || v_found.takes_left || ',', v_found.takes_right, v_found.oprresult);
    exception when others then
      null;
    end;
  end loop;
end
$$;
