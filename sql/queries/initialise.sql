-- $1 name of an example, or null
select subject, name, value from tidegate.initialise($1);
