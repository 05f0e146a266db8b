-- $1 name, $2 value, $3 actor
select subject, setting as name, old_value, new_value, type from tidegate.config_set($1, $2, $3);
