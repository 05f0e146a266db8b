-- $1 changes, $2 actor
select setting as name, subject, row(type, old_value) as old_value, row(type, new_value) as new_value
from tidegate.config_set_many($1, $2);
