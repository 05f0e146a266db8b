-- $1 queue, $2 tokens, $3 ids, $4 references, $5 responses, $6 how long each call took in milliseconds, $7 hedges
select id, req_status::text as status from tidegate.settle_receipt(array(
  select row($1::text, l.token, l.id)::tidegate.lease from unnest($2::bigint[], $3::uuid[]) as l(token, id)
), $4, $5, took_ms => $6, hedges => $7);
