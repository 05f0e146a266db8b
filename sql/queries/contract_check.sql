-- $1 the assertions, a JSON array as text
select
  place, kind, stage::text as stage, type, member, holds, observed, bound, value::float8 as value,
  round(baseline, 6)::float8 as baseline, detail
from tidegate.contract_check($1::text::jsonb);
