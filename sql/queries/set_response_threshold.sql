-- $1 token, $2 id, $3 shares; a claim has one queue
select tidegate.set_response_threshold(
  row((select c.queue from tidegate.claim as c where c.token = $1 limit 1), $1, $2)::tidegate.lease, $3
);
