-- $1 name or null, $2 rows at most, $3 only changes before this id, or null
select id, at, actor, on_behalf_of, operation, subject, setting as name,
  row(type, old_value) as old_value, row(type, new_value) as new_value
from tidegate.config_history($1, $2, $3);
