-- $1 name or null, $2 rows at most, $3 only changes before this id, or null
select id, at, actor, on_behalf_of, operation, subject, setting as name, old_value, new_value, type
from tidegate.config_history($1, $2, $3);
