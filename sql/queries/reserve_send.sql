-- $1 queue
select
  (extract(epoch from reserved_at) * 1000000)::bigint as reserved_at_us,
  (extract(epoch from send_in) * 1000000)::bigint as send_in_us, wait_ms
from tidegate.reserve_send($1);
