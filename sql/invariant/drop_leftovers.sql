-- drop_leftovers: Drops the functions, views and triggers of Tidegate's schemas that the transaction has not made;
-- returns those that stay.
--
-- For `migrate`, once it has made everything: `create or replace` writes the row of an object anew, so an object whose
-- row is older is of another version. What belongs to another role stays, and what an object of the application needs.
create or replace function tidegate_internal.drop_leftovers()
  returns setof text language plpgsql as $$
declare
  v_left   text[];
  v_object record;
  v_again  boolean := true;
begin
  -- Again while something goes, because a view may need a function, and a function a view.
  while v_again loop
    v_again := false;
    v_left := '{}';
    for v_object in
      select o.name, o.owner = current_user::regrole as is_own
      from (
        select format('trigger %I on tidegate.%I', t.tgname, c.relname), c.relowner, t.xmin, c.relnamespace
        from pg_trigger as t
        join pg_class as c on c.oid = t.tgrelid
        join pg_proc as p on p.oid = t.tgfoid
        where not t.tgisinternal and t.tgparentid = 0
          and p.pronamespace in ('tidegate'::regnamespace, 'tidegate_internal'::regnamespace)
        union all
        select format('view %s', c.oid::regclass), c.relowner, w.xmin, c.relnamespace
        from pg_class as c
        join pg_rewrite as w on w.ev_class = c.oid and w.rulename = '_RETURN'
        where c.relkind = 'v'
        union all
        -- Not the clock, which the tables have in their defaults.
        select format('routine %s', p.oid::regprocedure), p.proowner, p.xmin, p.pronamespace
        from pg_proc as p
        where not exists (
          select from pg_depend as d
          where d.refclassid = 'pg_proc'::regclass and d.refobjid = p.oid
            and d.classid in ('pg_attrdef'::regclass, 'pg_constraint'::regclass)
        )
      ) as o(name, owner, xmin, namespace)
      where o.namespace in ('tidegate'::regnamespace, 'tidegate_internal'::regnamespace) and age(o.xmin) > 0
        and strpos(coalesce(current_setting('tidegate.made', true), ''), format('[%s]', o.name)) = 0
      order by o.name
    loop
      begin
        if v_object.is_own then
          execute 'drop ' || v_object.name;
          v_again := true;
          continue;
        end if;
      exception when dependent_objects_still_exist then
        null;
      end;
      v_left := v_left || v_object.name;
    end loop;
  end loop;
  return query select unnest(v_left);
end;
$$;
