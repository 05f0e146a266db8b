-- $1 name, $2 value
select subject, setting as name, old_value, new_value from tidegate.config_set($1, $2);
