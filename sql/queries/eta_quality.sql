select kind, error_seconds_sum, error_bins, p90_stated, p90_held from tidegate.eta_quality order by kind;
