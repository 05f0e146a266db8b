-- $1 queue, $2 tokens, $3 ids
select (l).token, (l).id from tidegate.still_held(array(
  select row($1::text, l.token, l.id)::tidegate.lease from unnest($2::bigint[], $3::uuid[]) as l(token, id)
)) as l;
