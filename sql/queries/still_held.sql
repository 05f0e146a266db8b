-- $1 queue, $2 msg_ids, $3 nonces
select (l).msg_id, (l).nonce from tidegate.still_held(array(
  select row($1::text, l.msg_id, l.nonce)::tidegate.lease
  from unnest($2::bigint[], $3::bigint[]) with ordinality as l(msg_id, nonce, place)
  order by l.place
)) as l;
