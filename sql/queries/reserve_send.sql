-- $1 queue
select (extract(epoch from send_in) * 1000000)::bigint as send_in_us, wait_ms from tidegate.reserve_send($1);
