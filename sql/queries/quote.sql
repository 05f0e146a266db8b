-- $1 kind, $2 submitter
select outcome, queue, queue_position, retry_after_seconds, eta_p50_ms, eta_p90_ms from tidegate.quote($1, $2);
