-- $1 queue, $2 msg_ids, $3 nonces, $4 waits in milliseconds, $5 errors, $6 how long each call took in milliseconds, $7 hedges
select id, req_status::text as status from tidegate.settle_not_yet(array(
  select row($1::text, l.msg_id, l.nonce)::tidegate.lease
  from unnest($2::bigint[], $3::bigint[]) with ordinality as l(msg_id, nonce, place)
  order by l.place
), array(
  select make_interval(secs => w.ms / 1000.0) from unnest($4::bigint[]) with ordinality as w(ms, place) order by w.place
),
  errors => $5, took_ms => $6, hedges => $7
);
