-- $1 queue, $2 lease tokens, $3 ids, $4 errors, $5 waits in milliseconds (null: by the policy's backoff)
-- $6 whether the downstream may have received each send, $7 how long each call took in milliseconds, $8 hedges
select id, req_status::text as status from tidegate.settle_retry(array(
  select row($1::text, l.token, l.id)::tidegate.lease from unnest($2::bigint[], $3::uuid[]) as l(token, id)
), $4, array(select make_interval(secs => w.ms / 1000.0) from unnest($5::bigint[]) as w(ms)),
  $6, took_ms => $7, hedges => $8);
