-- $1 queue, $2 tokens, $3 ids
select id, req_status::text as status from tidegate.release(array(
  select row($1::text, l.token, l.id)::tidegate.lease from unnest($2::bigint[], $3::uuid[]) as l(token, id)
));
