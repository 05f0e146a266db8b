-- $1 queue, $2 tokens, $3 ids, $4 lease in milliseconds
select (l).token, (l).id from tidegate.extend(array(
  select row($1::text, l.token, l.id)::tidegate.lease from unnest($2::bigint[], $3::uuid[]) as l(token, id)
), make_interval(secs => $4 / 1000.0)) as l;
