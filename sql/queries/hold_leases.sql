-- $1 tokens, $2 ids; a claim has one queue
select token, id from tidegate.hold_leases(array(
  select row((select c.queue from tidegate.claim as c where c.token = l.token limit 1), l.token, l.id)::tidegate.lease
  from unnest($1::bigint[], $2::uuid[]) as l(token, id)
));
