-- $1 queue, $2 msg_ids, $3 nonces, $4 lease in milliseconds
select (l).msg_id, (l).nonce from tidegate.extend(array(
  select row($1::text, l.msg_id, l.nonce)::tidegate.lease
  from unnest($2::bigint[], $3::bigint[]) with ordinality as l(msg_id, nonce, place)
  order by l.place
), make_interval(secs => $4 / 1000.0)) as l;
