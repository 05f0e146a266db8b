-- read_timeouts: $1 kinds, $2 stage, $3 worker
select
  kind, adaptive, timeout_ms, min_ms, slo, interval_ms, k_margin, alarm_samples, best_case, interval_calls, estimate,
  sequence, others_rps, now_us
from tidegate.read_timeouts($1, $2::text::tidegate.stage, $3);

-- fold_timeouts: $1 kind, $2 stage, $3 version, $4 estimate, $5 report, $6 worker
select tidegate.fold_timeouts($1, $2::text::tidegate.stage, $3, $4, $5, $6);
