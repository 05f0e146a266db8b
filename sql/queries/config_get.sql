-- $1 name or null
select
  name, row(type, value) as value, unit, type, subject, is_default, row(type, default_value) as default_value, comment
from tidegate.config_get($1);
