-- config: One row per setting, by its documented name, without those that a queue's stage or a kind's flow does not
-- use.
--
--   name: The documented name, as config_set takes it.
--   value: Its value, in its unit; null: none (no limit, or not set yet).
--   unit: Unit of the value; null: not a quantity.
--   type: number, boolean, text, interval, list (a,b) or backoff (from=seconds,…).
--   subject: The row it belongs to, such as queue tx.
--   is_default: Whether it has the value that a row comes with.
--   default_value: The value that a row comes with; null: none.
--   comment: Its description.
--   table_name: The table that holds it.
--   row_key: The row that holds it: its primary key, joined by dots.
--   column_name: The column that holds it.
create or replace view tidegate.config as
with item as (
  select 1 as rank, 'setting' as table_name, '' as row_key, to_jsonb(s) as fields, '{}'::jsonb as own_defaults
  from tidegate.setting as s
  union all
  select 3, 'queue', q.name, to_jsonb(q), '{}' from tidegate.queue as q
  union all
  select 4, 'gate', g.name, to_jsonb(g), '{}' from tidegate.gate as g
  union all
  select 5, 'kind', k.name, to_jsonb(k), '{}' from tidegate.kind as k
  union all
  -- The policies that come with a kind differ by stage and deadline: `kind_policies` makes them.
  select
    6, 'policy', p.kind || '.' || p.stage, to_jsonb(p),
    to_jsonb(d) || case p.stage when 'readiness' then '{"hedge_safe": true, "heal_timeout_rate": 0.005}'
      else '{}' end::jsonb
  from tidegate.policy as p
  join tidegate.kind as k on k.name = p.kind
  cross join lateral tidegate.default_policy(k, p.stage) as d
),
found as (
  select
    i.rank, i.table_name, i.row_key, c.column_name, c.place, c.type, c.unit, c.comment,
    tidegate.config_value(c.type, c.factor, i.fields ->> c.column_name) as value,
    case c.type
      when 'interval' then tidegate.config_value(c.type, 1, coalesce(i.own_defaults ->> c.column_name, c.default_value))
      else coalesce(i.own_defaults ->> c.column_name, c.default_value)
    end as default_value
  from item as i
  join tidegate.config_column as c on c.table_name = i.table_name
  where not case
    when i.table_name = 'queue' and i.fields ->> 'stage' = 'readiness' then c.column_name in ('per_seconds', 'burst')
    when i.table_name = 'queue' then c.column_name = 'max_concurrency'
    when i.table_name = 'kind' and i.fields ->> 'flow' <> 'decrypt'
      then c.column_name in ('readiness_ms', 'readiness_queue', 'response_threshold')
    else false
  end
  union all
  select
    2, 'response_backoff', '', 'seconds', 1, 'backoff', 's=s',
    'When to ask again for an awaited response, by how long it has been awaited: from=wait, from=wait, …',
    (select string_agg(tidegate.interval_seconds(b.from_elapsed) || '=' || b.seconds, ',' order by b.from_elapsed)
     from tidegate.response_backoff as b),
    '0s=4,60s=10,120s=30,300s=60,900s=300'
)
select
  tidegate.config_name(f.table_name, f.row_key, f.column_name) as name,
  f.value, f.unit, f.type,
  btrim(f.table_name || ' ' || f.row_key) as subject,
  f.value is not distinct from f.default_value as is_default,
  f.default_value, f.comment, f.table_name, f.row_key, f.column_name
from found as f
order by f.rank, f.row_key, f.place;
