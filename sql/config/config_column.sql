-- config_column: The columns that are settings: those of the configuration tables, without keys and counters.
--
--   table_name: The table.
--   column_name: The column.
--   place: Where the column stands in its table.
--   type: number, boolean, text, interval or list.
--   whole: Whether it holds whole numbers only.
--   nullable: Whether it may be none.
--   factor: Column units per setting unit: 1000 for seconds kept as ms.
--   unit: Unit of the setting's value; null: not a quantity.
--   default_value: The column's default, as text; null: none.
--   comment: The column's comment.
create or replace view tidegate.config_column as
select
  t.relname::text as table_name,
  a.attname::text as column_name,
  a.attnum::integer as place,
  case
    when a.atttypid in ('integer'::regtype, 'bigint'::regtype, 'numeric'::regtype) then 'number'
    when a.atttypid = 'boolean'::regtype then 'boolean'
    when a.atttypid = 'interval'::regtype then 'interval'
    when a.atttypid = 'text[]'::regtype then 'list'
    else 'text'
  end as type,
  a.atttypid in ('integer'::regtype, 'bigint'::regtype) as whole,
  not a.attnotnull as nullable,
  case when a.attname in ('readiness_ms', 'processing_ms') then 1000 else 1 end as factor,
  case
    when a.attname in ('readiness_ms', 'processing_ms') then 's'
    when a.attname = 'per_seconds' then 'sends per second'
    when a.attname = 'burst' then 'sends'
    when a.attname = 'max_concurrency' then 'requests'
    when a.attname = 'adaptive_interval_calls' then 'calls'
    when a.attname in ('high_water', 'low_water') then 'messages'
    when a.attname = 'response_threshold' then 'shares'
    when a.attname in ('safety_margin', 'jitter', 'hedge_share', 'breaker_error_rate', 'heal_retry_rate',
      'heal_timeout_rate', 'adaptive_slo') then 'share of 1'
    when a.attname like '%\_ms' then 'ms'
    when a.attname like '%\_seconds' then 's'
  end as unit,
  -- A default is a constant: '00:15:00'::interval, 30, true.
  case when e.text like '''%' then btrim(substring(e.text from '^''(.*)''::'), '{}') else e.text end as default_value,
  replace(
    col_description(a.attrelid, a.attnum),
    case when a.attname ~ '^(readiness|processing)_ms$' then ', milliseconds' else '' end, ''
  ) as comment
from pg_class as t
join pg_attribute as a on a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped
left join pg_attrdef as d on d.adrelid = a.attrelid and d.adnum = a.attnum
cross join lateral pg_get_expr(d.adbin, d.adrelid) as e(text)
where t.relnamespace = 'tidegate'::regnamespace
  and t.relname in ('setting', 'queue', 'gate', 'kind', 'policy')
  -- Keys, counters, and columns that triggers or the functions of gates set.
  and a.attname not in ('only_row', 'initialised_at', 'name', 'created_at', 'kinds', 'paused_kinds', 'kind', 'stage',
    'flow', 'version', 'fair_by')
  -- A queue may have the name of a kind: `NAME.paused` is the queue's.
  and not (t.relname = 'kind' and a.attname = 'paused')
  and not (t.relname = 'gate'
    and a.attname in ('queue', 'submitter', 'state', 'forced', 'depth', 'epoch', 'changed_at'));
