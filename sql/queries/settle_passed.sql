-- $1 queue, $2 msg_ids, $3 nonces, $4 how long each call took in milliseconds, $5 hedges
select id, queue, wake from tidegate.settle_passed(array(
  select row($1::text, l.msg_id, l.nonce)::tidegate.lease
  from unnest($2::bigint[], $3::bigint[]) with ordinality as l(msg_id, nonce, place)
  order by l.place
), took_ms => $4, hedges => $5);
