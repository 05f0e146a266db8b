-- quote: $1 kind, $2 submitter
select outcome, queue, queue_position, retry_after_seconds, eta_p50_ms, eta_p90_ms from tidegate.quote($1, $2);

-- request_owner: $1 the request
select r.kind, r.submitter from tidegate.request as r where r.id = $1;

-- explain: $1 id
select reason, sentence, figures from tidegate.explain($1);
