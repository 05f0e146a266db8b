-- $1 name or null
select name, value, unit, type, subject, is_default, default_value, comment from tidegate.config_get($1);
