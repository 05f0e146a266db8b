-- $1 the assertions, a JSON array as text, $2 actor
select
  place, kind, stage::text as stage, type, member, holds, observed, bound, value::float8 as value,
  round(baseline, 6)::float8 as baseline, detail
from tidegate.contract_record($1::text::jsonb, $2);
