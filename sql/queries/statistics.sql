-- eta_quality
select kind, error_seconds_sum, error_bins, p90_stated, p90_held from tidegate.eta_quality order by kind;

-- count_polls: $1 kinds, $2 requests answered, $3 polls, $4 lateness in milliseconds
select tidegate.count_polls($1, $2, $3, $4);

-- replay_counts
select kind, replays from tidegate.replay_counts();
