-- $1 name, $2 value, $3 actor
select setting as name, subject, row(type, old_value) as old_value, row(type, new_value) as new_value
from tidegate.config_set($1, $2, $3);
