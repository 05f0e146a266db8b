select
  kind, stage::text as stage, state, srtt_ms::float8 as srtt_ms, rttvar_ms::float8 as rttvar_ms,
  srto_ms::float8 as srto_ms, k_margin,
  timeout_ms::float8 as timeout_ms, min_rtt_ms::float8 as min_rtt_ms, usual_rtt_ms::float8 as usual_rtt_ms,
  failure_rate, slo::float8 as slo, load_rps, high_load_rps, high_load_intervals, min_ms, max_ms, interval_ms,
  intervals, processes, in_flight, updated_at
from tidegate.estimator_overview
order by kind, stage;
