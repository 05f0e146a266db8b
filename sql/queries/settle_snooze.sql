-- $1 queue, $2 tokens, $3 ids, $4 waits in milliseconds, $5 errors, $6 how long each call took in milliseconds, $7
-- hedges
select id, req_status::text as status from tidegate.settle_snooze(array(
  select row($1::text, l.token, l.id)::tidegate.lease from unnest($2::bigint[], $3::uuid[]) as l(token, id)
), array(select make_interval(secs => w.ms / 1000.0) from unnest($4::bigint[]) as w(ms)),
  errors => $5, took_ms => $6, hedges => $7);
