-- config_get: $1 name or null
select
  name, row(type, value) as value, unit, type, subject, is_default, row(type, default_value) as default_value, comment
from tidegate.config_get($1);

-- config_set: $1 name, $2 value, $3 actor
select setting as name, subject, row(type, old_value) as old_value, row(type, new_value) as new_value
from tidegate.config_set($1, $2, $3);

-- config_set_many: $1 changes, $2 actor
select setting as name, subject, row(type, old_value) as old_value, row(type, new_value) as new_value
from tidegate.config_set_many($1, $2);

-- config_history: $1 name or null, $2 rows at most, $3 only changes before this id, or null
select id, at, actor, on_behalf_of, operation, subject, setting as name,
  row(type, old_value) as old_value, row(type, new_value) as new_value
from tidegate.config_history($1, $2, $3);
