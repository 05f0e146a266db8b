-- $1 queue, $2 tokens, $3 ids, $4 how long each call took in milliseconds, $5 hedges
select id, queue, wake from tidegate.settle_passed(array(
  select row($1::text, l.token, l.id)::tidegate.lease from unnest($2::bigint[], $3::uuid[]) as l(token, id)
), took_ms => $4, hedges => $5);
