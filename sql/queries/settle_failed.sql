-- $1 queue, $2 tokens, $3 ids, $4 errors, $5 how long each call took in milliseconds, $6 hedges
select id, req_status::text as status from tidegate.settle_failed(array(
  select row($1::text, l.token, l.id)::tidegate.lease from unnest($2::bigint[], $3::uuid[]) as l(token, id)
), $4, took_ms => $5, hedges => $6);
