-- Drops the functions, procedures and views named, all of each name, after the objects of their schemas that need them.
-- `migrate` makes those again, and puts the names in the place of `names`.
do $$
declare
  v_object text;
begin
  for v_object in
    with recursive doomed(class, id, depth) as (
      select 'pg_proc'::regclass::oid, p.oid, 0
      from pg_proc as p
      where format('%s.%s', p.pronamespace::regnamespace, p.proname) = any('{{names}}'::text[])
      union
      select 'pg_class'::regclass::oid, c.oid, 0
      from pg_class as c
      where format('%s.%s', c.relnamespace::regnamespace, c.relname) = any('{{names}}'::text[]) and c.relkind = 'v'
      union
      select n.class, n.id, o.depth + 1
      from doomed as o
      join pg_depend as d on d.refclassid = o.class and d.refobjid = o.id and d.deptype = 'n'
      left join pg_rewrite as w on d.classid = 'pg_rewrite'::regclass and w.oid = d.objid
      cross join lateral (
        select
          case when w.oid is null then d.classid else 'pg_class'::regclass end,
          coalesce(w.ev_class, d.objid)
      ) as n(class, id)
      where n.class in ('pg_proc'::regclass, 'pg_class'::regclass) and (n.class, n.id) <> (o.class, o.id)
    )
    select format('drop %s', coalesce('routine ' || p.oid::regprocedure, 'view ' || v.oid::regclass))
    from (select o.class, o.id, max(o.depth) as depth from doomed as o group by o.class, o.id) as o
    left join pg_proc as p on o.class = 'pg_proc'::regclass and p.oid = o.id
    left join pg_class as v on o.class = 'pg_class'::regclass and v.oid = o.id and v.relkind = 'v'
    where coalesce(p.pronamespace, v.relnamespace)::regnamespace::text = any(
      select split_part(n, '.', 1) from unnest('{{names}}'::text[]) as n
      union all select split_part(n, '.', 1) || '_internal' from unnest('{{names}}'::text[]) as n
      union all select replace(split_part(n, '.', 1), '_internal', '') from unnest('{{names}}'::text[]) as n
    )
    order by o.depth desc
  loop
    execute v_object;
  end loop;
end
$$
