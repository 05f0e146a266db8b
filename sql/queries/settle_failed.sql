-- $1 queue, $2 msg_ids, $3 nonces, $4 errors, $5 how long each call took in milliseconds, $6 hedges
select id, req_status::text as status from tidegate.settle_failed(array(
  select row($1::text, l.msg_id, l.nonce)::tidegate.lease
  from unnest($2::bigint[], $3::bigint[]) with ordinality as l(msg_id, nonce, place)
  order by l.place
), $4, took_ms => $5, hedges => $6);
