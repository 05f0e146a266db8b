-- extend: $1 queue, $2 tokens, $3 ids, $4 lease in milliseconds
select (l).token, (l).id from tidegate.extend(array(
  select row($1::text, l.token, l.id)::tidegate.lease from unnest($2::bigint[], $3::uuid[]) as l(token, id)
), make_interval(secs => $4 / 1000.0)) as l;

-- still_held: $1 queue, $2 tokens, $3 ids
select (l).token, (l).id from tidegate.still_held(array(
  select row($1::text, l.token, l.id)::tidegate.lease from unnest($2::bigint[], $3::uuid[]) as l(token, id)
)) as l;

-- hold_leases: $1 tokens, $2 ids; a claim has one queue
select token, id from tidegate.hold_leases(array(
  select row((select c.queue from tidegate.claim as c where c.token = l.token limit 1), l.token, l.id)::tidegate.lease
  from unnest($1::bigint[], $2::uuid[]) as l(token, id)
));

-- set_response_threshold: $1 token, $2 id, $3 shares; a claim has one queue
select tidegate.set_response_threshold(
  row((select c.queue from tidegate.claim as c where c.token = $1 limit 1), $1, $2)::tidegate.lease, $3
);
