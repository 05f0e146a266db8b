-- $1 name of an example, or null, $2 name of gates, or null
select subject, name, value from tidegate.initialise($1, $2);
