-- schema_objects: The functions, triggers, views and tables of a schema and its inner one, and the group roles, each
-- with a digest of its content and grants.
--
-- Of the grants, those to everyone and to the group roles. The branches for queues are left out of bodies, and the
-- tables that come and go with the days or with fair queues.
create or replace function tidegate_internal.schema_objects(p_schema text)
  returns table (object text, digest text) language sql stable
  set search_path = pg_catalog, pg_temp
as $$
  with ours as (
    select n.oid from pg_namespace as n where n.nspname in (p_schema, p_schema || '_internal')
  ), role as (
    select r.oid, r.rolname as name
    from pg_roles as r
    where r.rolname in ('tidegate_reader', 'tidegate_api', 'tidegate_node', 'tidegate_worker', 'tidegate_admin')
  ), described as (
    select
      'function ' || p.oid::regprocedure as object, coalesce(p.proacl, acldefault('f', p.proowner)) as acl,
      concat_ws(
        ' ', p.prorettype::regtype, p.proretset, p.provolatile, p.prosecdef, p.proisstrict, p.proconfig,
        case when p.prosrc like '%-- end of each queue%' then tidegate_internal.each_queue(p.prosrc, '{}')
          else coalesce(pg_get_function_sqlbody(p.oid), p.prosrc) end
      ) as content
    from pg_proc as p
    where p.pronamespace in (select o.oid from ours as o)
    union all
    select format('trigger %I on %s', t.tgname, c.oid::regclass), null, concat(pg_get_triggerdef(t.oid), t.tgenabled)
    from pg_trigger as t
    join pg_class as c on c.oid = t.tgrelid
    join pg_proc as p on p.oid = t.tgfoid
    where c.relnamespace in (select o.oid from ours as o) and p.pronamespace in (select o.oid from ours as o)
      and not t.tgisinternal and t.tgparentid = 0
    union all
    select
      case c.relkind when 'v' then 'view ' else 'table ' end || c.oid::regclass,
      coalesce(c.relacl, acldefault('r', c.relowner)) || array(
        select e
        from pg_attribute as a
        cross join lateral unnest(a.attacl) as e
        where a.attrelid = c.oid
        order by a.attnum
      ),
      -- A view that was dumped and restored names its constants after their types.
      case c.relkind
        when 'v' then regexp_replace(
          pg_get_viewdef(c.oid),
          '(::[a-z ]+) AS (text|jsonb|bool|int4|int8|numeric|interval|timestamptz|uuid)(?![a-z0-9_])', E'\\1', 'g'
        )
      end
    from pg_class as c
    where c.relnamespace in (select o.oid from ours as o) and c.relkind in ('v', 'r', 'p') and not c.relispartition
      and not exists (
        select
        from tidegate.queue as q
        where q.fair_by is not null and c.relname in ('turn_' || q.name, 'arrival_' || q.name)
      )
  )
  select
    d.object,
    md5(concat_ws(' ', d.content, (
      select string_agg(concat_ws(' ', coalesce(r.name, 'public'), a.privilege_type), ', ' order by r.name,
        a.privilege_type)
      from aclexplode(d.acl) as a
      left join role as r on r.oid = a.grantee
      where a.grantee = 0 or r.oid is not null
    )))
  from described as d
  union all
  select 'role ' || r.name, '' from role as r;
$$;
