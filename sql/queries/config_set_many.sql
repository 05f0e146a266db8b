-- $1 changes, $2 actor
select subject, setting as name, old_value, new_value, type from tidegate.config_set_many($1, $2);
