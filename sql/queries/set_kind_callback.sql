-- $1 kind, $2 URL or null
select tidegate.set_kind_callback($1, $2);
