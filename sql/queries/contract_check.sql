-- $1 the assertions, a JSON array as text
select place, kind, stage::text as stage, type, holds, observed, bound, detail
  from tidegate.contract_check($1::text::jsonb);
