-- $1 queue, $2 msg_ids, $3 nonces
select id, req_status::text as status from tidegate.release(array(
  select row($1::text, l.msg_id, l.nonce)::tidegate.lease
  from unnest($2::bigint[], $3::bigint[]) with ordinality as l(msg_id, nonce, place)
  order by l.place
));
